"""Judges from the locks that processes hold while they live, seen again and again, which of them are gone."""

from collections.abc import Collection
from typing import Final

_FORGET_SECONDS: Final = 600.0


class Attendance:
    """Judges by looks that it is told of, between ``begin`` and ``end``. Times are in seconds of any one clock.

    ``grace``: time for which a lock is missing before its process is gone.
    """

    def __init__(self, *, grace: float) -> None:
        self._grace = grace
        self.gone: frozenset[int] = frozenset()
        self._trusts_from = float("inf")
        self.present: frozenset[int] = frozenset()
        self._absent_since: dict[int, float] = {}

    @property
    def is_settled(self) -> bool:
        """Whether nobody is missing of whom it is not known yet."""
        return self._absent_since.keys() <= self.gone

    def begin(self, trusts_from: float) -> None:
        """Judges from then on, by what is seen from now on."""
        self._trusts_from = trusts_from
        self.present = self.gone = frozenset()
        self._absent_since.clear()

    def end(self) -> None:
        """Takes nobody for gone any more."""
        self.begin(float("inf"))

    def looked(self, present: frozenset[int], now: float) -> bool:
        """Takes note of the locks held ``now``; returns whether somebody is gone who was not before."""
        for number in self.present - present:
            self._absent_since.setdefault(number, now)
        for number in present:
            self._absent_since.pop(number, None)
        for number in [each for each, since in self._absent_since.items() if now - since > _FORGET_SECONDS]:
            del self._absent_since[number]
        self.present = present
        before, self.gone = self.gone, self._judge(now)
        return not self.gone <= before

    def of(self, numbers: Collection[int], now: float) -> frozenset[int]:
        """Returns the numbers whose process is gone. A number never seen is watched from now on."""
        for number in numbers:
            if number not in self.present:
                self._absent_since.setdefault(number, now)
        return self.gone.intersection(numbers)

    def _judge(self, now: float) -> frozenset[int]:
        if now < self._trusts_from:
            return frozenset()
        return frozenset(each for each, since in self._absent_since.items() if now - since >= self._grace)
