"""The days from which on events can lie: a read of few days looks into few of the timeline's partitions."""

from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Final

from libs.contracts.identifiers import made_at

CLOCKS: Final = timedelta(hours=1)
"""Between the clocks of any two machines; each day more is another partition to look at."""
_DAY: Final = timedelta(days=1)
_KEPT_DAYS: Final = 3
_KEPT_COMPANIES: Final = 10_000


def first_day_of(identifier: str | None) -> date | None:
    """Returns the first day of events that name the id, which cannot be before it was made; None if it may be any."""
    made = None if identifier is None else made_at(identifier)
    return None if made is None else (made - CLOCKS).date()


class TimelineDays:
    """Remembers of each company on which of the newest days seen its events have which positions.

    Positions grow with time but for clocks that differ: whatever follows an event lies on its day, the day before it or
    later. An event of a day that has not begun was stored by a wrong clock, and tells nothing of those that follow.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._lowest: dict[str, dict[date, int]] = {}

    def seen(self, company_id: str, events: Sequence[tuple[date, int]]) -> None:
        """Takes note of events by their days and positions. Keeps the 10,000 companies whose events were read last."""
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
        """Returns the highest known position up to the given one, and the first day of it and of all that follow."""
        lowest = self._lowest.get(company_id, {})
        return max(((known, day - _DAY) for day, known in lowest.items() if known <= position), default=None)
