"""Narrows reads to the possible days of events, and thereby to a few of the timeline's partitions."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from libs.contracts.identifiers import made_at

CLOCKS: Final = timedelta(hours=1)
"""Maximum clock difference between two machines; each additional day means another partition to read."""
_DAY: Final = timedelta(days=1)
_KEPT_DAYS: Final = 3
_KEPT_COMPANIES: Final = 10_000


def first_day_of(identifier: str | None) -> date | None:
    """Returns the first possible day of events that name the ID: the day it was created; None if unknown."""
    made = None if identifier is None else made_at(identifier)
    return None if made is None else (made - CLOCKS).date()


class TimelineDays:
    """Remembers the positions of each company's events on the newest days.

    Positions grow with time except for clock differences: every event after another lies on its day, the day before, or
    later. An event dated in the future came from a wrong clock, and says nothing about those that follow.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lowest: dict[str, dict[date, int]] = {}

    def seen(self, company_id: str, events: Sequence[tuple[date, int]]) -> None:
        """Records the days and positions of events. Keeps the 10,000 companies read most recently."""
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
        """Returns the highest known position up to the given one, and the first possible day from there on."""
        lowest = self._lowest.get(company_id, {})
        return max(((known, day - _DAY) for day, known in lowest.items() if known <= position), default=None)
