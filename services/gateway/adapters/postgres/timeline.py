"""The timeline in PostgreSQL, for readers."""

from collections.abc import Sequence
from typing import Any, Final

from libs.persistence import Database
from services.gateway.domain.timeline import TimelineEvent, TimelineFilter

_NAMES: Final = (
    "position", "company_id", "id", "type", "version", "source", "subject", "sequence", "time", "correlation_id",
    "causation_id", "session_id", "turn_id", "owner_id", "data",
)  # fmt: skip
_SELECT: Final = f"SELECT {', '.join(_NAMES)} FROM timeline_events"
_HEAD: Final = "SELECT position FROM timeline_counters WHERE company_id = %s"
_TURN: Final = f"{_SELECT} WHERE company_id = %s AND subject = %s AND sequence > %s ORDER BY sequence"
_CONDITIONS: Final = {
    "correlation_id": "correlation_id = %(correlation_id)s",
    "session_id": "session_id = %(session_id)s",
    "turn_id": "turn_id = %(turn_id)s",
    "types": """
        (type = ANY(%(names)s)
         OR EXISTS (SELECT FROM unnest(%(prefixes)s::text[]) AS prefix WHERE starts_with(type, prefix)))
    """,
    "visible_to": "(owner_id IS NULL OR owner_id = %(visible_to)s)",
}


class PostgresTimeline:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def head(self, company_id: str) -> int:
        rows = await self._database.execute(_HEAD, (company_id,))
        return int(rows[0][0]) if rows else 0

    async def read(self, where: TimelineFilter, *, after: int, limit: int) -> Sequence[TimelineEvent]:
        wanted = {name: value for name in _CONDITIONS if (value := getattr(where, name)) not in (None, ())}
        conditions = ["company_id = %(company_id)s", "position > %(after)s", *(_CONDITIONS[name] for name in wanted)]
        statement = f"{_SELECT} WHERE {' AND '.join(conditions)} ORDER BY position LIMIT %(limit)s"
        values: dict[str, Any] = {**wanted, "company_id": where.company_id, "after": after, "limit": limit}
        if where.types:
            values |= {"names": list(where.names), "prefixes": list(where.prefixes)}
        return [_event(row) for row in await self._database.execute(statement, values)]

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[TimelineEvent]:
        rows = await self._database.execute(_TURN, (company_id, turn_id, after_sequence))
        return [_event(row) for row in rows]


def _event(row: Sequence[Any]) -> TimelineEvent:
    return TimelineEvent(**dict(zip(_NAMES, row, strict=True)))
