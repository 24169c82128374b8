"""The kernel tells how long a thread waited for a processor."""

import threading
from pathlib import Path

import pytest

from services.gateway.adapters import processor
from services.gateway.adapters.processor import waited_for_a_processor


def test_threads_that_want_one_processor_wait_for_each_other() -> None:
    waits: list[float] = []
    ended = threading.Event()

    def work() -> None:
        before = waited_for_a_processor()
        while not ended.is_set() and waited_for_a_processor() == before:
            pass
        waits.append(waited_for_a_processor() - before)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    ended.set()
    assert all(wait > 0 for wait in waits)
    assert len(waits) == len(threads)


def test_nothing_is_told_by_a_kernel_without_that_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_ACCOUNT", tmp_path / "none")
    assert waited_for_a_processor() == 0.0
