"""Reads the timeline from PostgreSQL."""

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from functools import partial
from typing import Any, Final

from libs.contracts.timeline import RecordedEvent, TimelineFilter, TimelinePage
from libs.persistence import Database
from services.timeline.adapters.postgres.days import TimelineDays, first_day_of

_NOW: Final = partial(datetime.now, UTC)
MOST_LOOKED_AT: Final = 5000
"""The maximum number of events that a filtered read examines."""

_NAMES: Final = (
    "position", "company_id", "id", "type", "version", "source", "subject", "sequence", "time", "correlation_id",
    "causation_id", "session_id", "turn_id", "owner_id", "data",
)  # fmt: skip
_SELECT: Final = f"SELECT day, {', '.join(_NAMES)} FROM timeline_events"
_HEADS: Final = "SELECT company_id, position FROM timeline_counters WHERE company_id = ANY(%s)"
_TURN: Final = ("company_id = %(company_id)s", "subject = %(turn_id)s", "sequence > %(after)s")
_ABOVE: Final = "position > %(after)s"
_BELOW: Final = "position < %(before)s"
_BACKWARDS: Final = "position DESC"
_INDEXED: Final = ("correlation_id", "session_id", "turn_id")
_SOME: Final = {
    "types": "(type = ANY(%(names)s) OR type ^@ ANY(%(prefixes)s::text[]))",
    "visible_to": "(owner_id IS NULL OR owner_id = %(visible_to)s)",
}
"""Conditions that no index supports."""


class PostgresTimeline:
    """Reads events. Remembers the positions of recent days, so that most reads need only a few partitions."""

    def __init__(self, database: Database, now: Callable[[], datetime] = _NOW) -> None:
        self._database = database
        self._days = TimelineDays(now)

    async def head(self, company_id: str) -> int:
        return (await self.heads([company_id])).get(company_id, 0)

    async def heads(self, company_ids: Sequence[str]) -> dict[str, int]:
        return dict(await self._database.execute(_HEADS, (list(company_ids),)))

    async def newest(self, where: TimelineFilter) -> RecordedEvent | None:
        values = _values(where) | {"after": 0, "limit": 1}
        events = await self._events(_scan(_indexed(where), _some(where), _BACKWARDS), values)
        return events[0] if events else None

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage[RecordedEvent]:
        """Reads a page. If no index supports the filter, examines at most 5,000 events."""
        values = _values(where) | {"after": after, "limit": limit + 1}
        start = self._days.start(where.company_id, after + 1)
        found, some = _indexed(where, from_day=start and start[1]), _some(where)
        events = await self._events(_scan(found, some), values)
        if len(events) > limit:
            return TimelinePage(events[:limit], events[limit - 1].position, has_more=True)
        end = await self._database.execute(_nth(found), values) if some else []
        if not end:
            return TimelinePage(events, events[-1].position if events else after, has_more=False)
        # Limits the statement to this position, since events may have been added after the first statement.
        events = await self._events(_scan([*found, "position <= %(end)s"], some), values | {"end": end[0][0]})
        until = events[limit - 1].position if len(events) > limit else end[0][0]
        return TimelinePage(events[:limit], until, has_more=True)

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage[RecordedEvent]:
        """Reads a page backwards, with the same limit as ``page``."""
        begin = await self.head(where.company_id) + 1 if before is None else before
        values = _values(where) | {"before": begin, "limit": limit + 1}
        found, some = _indexed(where, _BELOW), _some(where)
        events = await self._newest_days(where, values)
        if len(events) <= limit:
            events = await self._events(_scan(found, some, _BACKWARDS), values)
        if len(events) > limit:
            return TimelinePage(events[:limit], events[limit - 1].position, has_more=True)
        end = await self._database.execute(_nth(found, _BACKWARDS), values) if some else []
        if end:
            return TimelinePage(events, end[0][0], has_more=True)
        return TimelinePage(events, events[-1].position if events else begin, has_more=False)

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[RecordedEvent]:
        found = " AND ".join([*_TURN, *_since(first_day_of(turn_id))])
        values = {"company_id": company_id, "turn_id": turn_id, "after": after_sequence}
        return await self._events(f"{_SELECT} WHERE {found} ORDER BY sequence", values)

    async def _newest_days(self, where: TimelineFilter, values: dict[str, Any]) -> list[RecordedEvent]:
        """Reads only the days whose positions are known, so the page may be incomplete."""
        start = self._days.start(where.company_id, values["before"] - values["limit"])
        if start is None or any(getattr(where, name) is not None for name in _INDEXED):
            return []
        position, day = start
        found = [*_indexed(where, _BELOW, from_day=day), "position >= %(from)s"]
        return await self._events(_scan(found, _some(where), _BACKWARDS), values | {"from": position})

    async def _events(self, statement: str, values: dict[str, Any]) -> list[RecordedEvent]:
        rows = await self._database.execute(statement, values)
        self._days.seen(values["company_id"], [(day, position) for day, position, *_ in rows])
        return [_event(row) for row in rows]


def _values(where: TimelineFilter) -> dict[str, Any]:
    names = ("company_id", *_INDEXED, "visible_to")
    values = {name: getattr(where, name) for name in names if getattr(where, name) is not None}
    return values | ({"names": list(where.names), "prefixes": list(where.prefixes)} if where.types else {})


def _indexed(where: TimelineFilter, bound: str = _ABOVE, *, from_day: date | None = None) -> list[str]:
    """Returns the conditions that an index can check."""
    narrowed = [f"{name} = %({name})s" for name in _INDEXED if getattr(where, name) is not None]
    since = _since(from_day, first_day_of(where.session_id), first_day_of(where.turn_id))
    return ["company_id = %(company_id)s", *narrowed, bound, *since]


def _since(*days: date | None) -> list[str]:
    """Returns a condition that excludes partitions before the latest of these days.

    The day is a literal, because the planner can only exclude partitions by constants.
    """
    known = [day for day in days if day is not None]
    return [f"day >= '{max(known)}'"] if known else []


def _some(where: TimelineFilter) -> list[str]:
    wanted = {"types": bool(where.types), "visible_to": where.visible_to is not None}
    return [condition for name, condition in _SOME.items() if wanted[name]]


def _scan(found: Sequence[str], some: Sequence[str], order: str = "position") -> str:
    statement = f"{_SELECT} WHERE {' AND '.join(found)} ORDER BY {order}"
    if some:
        looked_at = f"({statement} LIMIT {MOST_LOOKED_AT}) AS looked_at"
        statement = f"SELECT * FROM {looked_at} WHERE {' AND '.join(some)} ORDER BY {order}"
    return f"{statement} LIMIT %(limit)s"


def _nth(found: Sequence[str], order: str = "position") -> str:
    """Returns a query for the position of the last event that a read may examine."""
    where = " AND ".join(found)
    return f"SELECT position FROM timeline_events WHERE {where} ORDER BY {order} OFFSET {MOST_LOOKED_AT - 1} LIMIT 1"


def _event(row: Sequence[Any]) -> RecordedEvent:
    return RecordedEvent(**dict(zip(_NAMES, row[1:], strict=True)))
