"""Limits reads to the days on which an event can have been stored, to read only a few partitions."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from libs.contracts.identifiers import creation_time

CLOCKS: Final = timedelta(hours=1)
"""The maximum clock difference between two machines. A larger value makes reads include more partitions."""
_DAY: Final = timedelta(days=1)
_KEPT_DAYS: Final = 3
_KEPT_COMPANIES: Final = 10_000


def first_day_of(identifier: str | None) -> date | None:
    """Returns the earliest day on which an event can contain the ID, or None if that's unknown."""
    made = None if identifier is None else creation_time(identifier)
    return None if made is None else (made - CLOCKS).date()


class TimelineDays:
    """Remembers the lowest position seen on each recent day, by company.

    Positions increase with time, except that a slow clock may date a later event one day earlier.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lowest: dict[str, dict[date, int]] = {}

    def seen(self, company_id: str, events: Sequence[tuple[date, int]]) -> None:
        """Records the days and positions of events that were read."""
        if not events:
            return
        lowest = self._lowest.pop(company_id, {})
        self._lowest[company_id] = lowest
        latest = (self._now() + CLOCKS).date()
        for day, position in events:
            if day <= latest:
                lowest[day] = min(position, lowest.get(day, position))
        for day in sorted(lowest)[:-_KEPT_DAYS]:
            del lowest[day]
        if len(self._lowest) > _KEPT_COMPANIES:
            del self._lowest[next(iter(self._lowest))]

    def start(self, company_id: str, position: int) -> tuple[int, date] | None:
        """Returns the highest known position up to the given one, and the earliest possible day of later events."""
        lowest = self._lowest.get(company_id, {})
        return max(((known, day - _DAY) for day, known in lowest.items() if known <= position), default=None)
