"""The most memory that processes have had since a moment, as Linux itself notes it: no look can miss the peak."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest


class PeakMemory:
    def __init__(self, pids: Sequence[int]) -> None:
        self._places = [Path(f"/proc/{pid}") for pid in pids]
        if not all((place / "clear_refs").exists() for place in self._places):
            pytest.skip("only Linux notes the peak of a process's memory")
        for place in self._places:
            # Forgets the peak.
            (place / "clear_refs").write_text("5")

    def read(self) -> list[int]:
        """Bytes, in the order of the processes. A process that has ended raises ``FileNotFoundError``."""
        return [_peak(place) for place in self._places]


def _peak(place: Path) -> int:
    found = re.search(r"^VmHWM:\s+(\d+) kB$", (place / "status").read_text(), re.MULTILINE)
    return int(found[1]) * 1024
