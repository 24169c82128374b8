"""The first revisions that `aes doctor` compares with those of all databases at once."""

import ast
import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from deploy.local.home import PROJECT_ROOT
from libs.persistence import _migrations

SERVICES = ("artifacts", "gateway", "runtime")


def test_one_thread_at_a_time_parses_revisions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 counts the depth of its parser for all threads together, and fails when two of them parse."""
    parsing: set[int] = set()
    met = threading.Event()
    parsed = 0

    def parse(text: str) -> ast.Module:
        nonlocal parsed
        parsing.add(threading.get_ident())
        parsed += 1
        if len(parsing) > 1:
            met.set()
        # For as long as another thread takes to get here when nothing keeps it out.
        met.wait(0.1)
        try:
            return ast.parse(text)
        finally:
            parsing.discard(threading.get_ident())

    monkeypatch.setattr(_migrations, "ast", SimpleNamespace(**{**vars(ast), "parse": parse}))
    folders = [PROJECT_ROOT / "services" / service / "migrations" for service in SERVICES]
    with ThreadPoolExecutor(len(folders)) as pool:
        list(pool.map(lambda folder: _migrations.configuration_of("postgresql://", folder), folders))

    assert parsed >= len(folders)
    assert not met.is_set()


class _Parsing:
    """Garbage whose finalizer parses, as a traceback of an exception that nobody has retrieved does."""

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        ast.parse("f(x)")


def test_a_garbage_collection_does_not_disturb_the_parser() -> None:
    folder = PROJECT_ROOT / "services" / "runtime" / "migrations"
    thresholds = gc.get_threshold()
    # Collections then look at this test's objects alone.
    gc.freeze()
    try:
        for threshold in range(50, 90):
            gc.collect()
            gc.set_threshold(threshold)
            garbage = [_Parsing() for _ in range(20)]
            garbage.clear()
            _migrations.configuration_of("postgresql://", folder)
    finally:
        gc.set_threshold(*thresholds)
        gc.unfreeze()
