"""Processes that can wait give way."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from libs.confined import lower_priority

_PRINTS = (
    "import os; from libs.confined import lower_priority; lower_priority(); print(os.getpriority(os.PRIO_PROCESS, 0))"
)


def test_a_process_that_gives_way_is_nicer_than_its_parent_and_so_is_its_session() -> None:
    group = Path("/proc/self/autogroup")
    prints = _PRINTS + (f"; print(open({str(group)!r}).read().split()[-1])" if group.exists() else "")
    written = subprocess.run(
        [sys.executable, "-c", prints], capture_output=True, text=True, check=True, start_new_session=True
    ).stdout
    niceness, *session = written.split()
    assert int(niceness) == min(os.nice(0) + 5, 19)
    assert session in ([], ["5"])


def test_a_process_that_may_not_give_way_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(niceness: int) -> int:
        asked.append(niceness)
        raise PermissionError

    monkeypatch.setattr(os, "nice", refuse)
    lower_priority()
    assert asked == [5]
