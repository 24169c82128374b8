"""Writes the timeline to PostgreSQL."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import orjson
import structlog
from psycopg.errors import CheckViolation, DataError, DivisionByZero, ProgramLimitExceeded

from libs.contracts.messages import PoisonMessage
from libs.contracts.timestamps import parse_time
from libs.eventing.bus import OffsetMove, Partition, StaleOffset
from libs.persistence import Database, embedded_json
from services.timeline.adapters import metrics
from services.timeline.adapters.postgres.days import CLOCKS
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.usage import ADD_USAGE
from services.timeline.domain.events import NewEvent

_log = structlog.get_logger("timeline.log")
_NAMES: Final = (
    "company_id", "id", "type", "version", "source", "subject", "sequence", "time", "correlation_id", "causation_id",
    "session_id", "turn_id", "owner_id",
)  # fmt: skip
_COLUMNS: Final = ", ".join(_NAMES)
_TYPES: Final = {"version": "smallint", "sequence": "bigint"}
_RECORD: Final = ", ".join([*(f"{name} {_TYPES.get(name, 'text')}" for name in _NAMES), "data text", "usage json"])
_OFFSETS: Final = "SELECT topic, partition, next_offset FROM timeline_offsets WHERE topic = ANY(%s)"
# The row lock serializes a partition's writers, and all copies of an event are in the same partition. So a second
# writer finds the offset moved, and the division by zero rolls back its statement.
_MOVE: Final = """
    moves AS (
        SELECT * FROM unnest(%s::text[], %s::int[], %s::bigint[], %s::bigint[]) AS g (topic, partition, before, after)
    ), moved AS (
        UPDATE timeline_offsets o SET next_offset = m.after FROM moves m
        WHERE o.topic = m.topic AND o.partition = m.partition AND o.next_offset = m.before RETURNING 1
    ), added AS (
        INSERT INTO timeline_offsets SELECT topic, partition, after FROM moves WHERE before IS NULL
        ON CONFLICT DO NOTHING RETURNING 1
    ), checked AS (
        SELECT 1 / ((SELECT count(*) FROM moves) = (SELECT count(*) FROM moved) + (SELECT count(*) FROM added))::int
            AS passed
    )
"""
_MOVE_ALONE: Final = f"WITH {_MOVE} SELECT passed - 1 FROM checked"
# The days are literals, so that the plan covers only a few partitions. A scalar query finds known events, since a join
# would be planned as a scan of the whole day. To avoid deadlocks, locks are taken on offsets first, then on counters in
# the order of companies.
_STORE: Final = f"""
    WITH {_MOVE}, given AS (
        SELECT * FROM ROWS FROM (json_to_recordset(%s) AS ({_RECORD})) WITH ORDINALITY
            AS g ({_COLUMNS}, data, usage, place)
    ), fresh AS (
        SELECT given.*, row_number() OVER (PARTITION BY company_id ORDER BY place) AS number FROM given
        WHERE (SELECT passed FROM checked) = 1 AND
              (SELECT e.id FROM timeline_events e
               WHERE e.company_id = given.company_id AND e.subject = given.subject AND e.sequence = given.sequence
                 AND e.id = given.id AND e.day BETWEEN '{{first}}' AND '{{last}}' LIMIT 1) IS NULL
    ), counts AS (
        SELECT company_id, count(*) AS number FROM fresh GROUP BY company_id
    ), counters AS (
        INSERT INTO timeline_counters AS c (company_id, position)
        SELECT company_id, number FROM counts ORDER BY company_id
        ON CONFLICT (company_id) DO UPDATE SET position = c.position + EXCLUDED.position
        RETURNING company_id, position
    ), stored AS (
        INSERT INTO timeline_events (day, position, {_COLUMNS}, data)
        SELECT '{{today}}', counters.position - counts.number + fresh.number,
               {", ".join(f"fresh.{name}" for name in _NAMES)}, convert_to(fresh.data, 'UTF8')
        FROM fresh JOIN counts USING (company_id) JOIN counters USING (company_id) ORDER BY place
        RETURNING 1
    ), used AS ({ADD_USAGE})
    SELECT count(*) FROM stored
"""
# Until a new partition is analyzed, the check for repeated events may use an index that reads all of the company's
# events of the day. Autovacuum doesn't analyze it for a minute or more.
_ANALYZED_AT: Final = (64, 4096)


class PostgresTimelineLog:
    """Stores events in batches, in the partition for the UTC date of ``now()``."""

    def __init__(
        self, database: Database, partitions: PostgresTimelinePartitions, *, now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._partitions = partitions
        self._now = now
        self._day, self._stored_on_day = date.min, 0

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        rows = await self._database.execute(_OFFSETS, (list(topics),))
        return {Partition(topic, number): next_offset for topic, number, next_offset in rows}

    async def store(self, events: Sequence[NewEvent], moves: Mapping[Partition, OffsetMove]) -> int:
        now = self._now()
        once: dict[str, NewEvent] = {}
        for event in events:
            once.setdefault(event.id, event)
        events, came = list(once.values()), len(events)
        made = [_made_at(event) for event in events]
        if (ahead := max((moment - now for moment in made if moment is not None), default=-CLOCKS)) > CLOCKS:
            # With clocks this far apart, an event that is redelivered after midnight may be stored twice.
            _log.warning("timeline.clocks_differ", seconds=round(ahead.total_seconds()))
        try:
            try:
                stored = await self._store(events, made, moves, now)
            except CheckViolation:
                # Today's partition is missing: maintenance hasn't run for days, or this machine's clock is ahead.
                await self._partitions.make(now.date())
                stored = await self._store(events, made, moves, now)
        except (DataError, ProgramLimitExceeded) as problem:
            raise PoisonMessage(f"the event can't be stored: {problem}") from problem
        metrics.REPEATED.inc(came - stored)
        _measure(made, stored, now)
        await self._count(now.date(), stored)
        return stored

    async def _count(self, day: date, stored: int) -> None:
        """Counts stored events, and analyzes a new partition after its first events."""
        before = self._stored_on_day if day == self._day else 0
        self._day, self._stored_on_day = day, before + stored
        if any(before < rows <= self._stored_on_day for rows in _ANALYZED_AT):
            await self._partitions.analyze(day)

    async def _store(
        self,
        events: Sequence[NewEvent],
        made: Sequence[datetime | None],
        moves: Mapping[Partition, OffsetMove],
        now: datetime,
    ) -> int:
        statement, given = (_statement(made, now), (_as_json(events),)) if events else (_MOVE_ALONE, ())
        try:
            return int(await self._database.value(statement, (*_columns(moves), *given)))
        except DivisionByZero:
            raise StaleOffset from None


def _measure(made: Sequence[datetime | None], stored: int, now: datetime) -> None:
    metrics.STORED.inc(stored)
    if made:
        metrics.BATCHES.inc()
    for moment in made:
        if moment is not None:
            metrics.STORING.observe(max((now - moment).total_seconds(), 0.0))


def _columns(moves: Mapping[Partition, OffsetMove]) -> tuple[list[Any], ...]:
    return (
        [partition.topic for partition in moves],
        [partition.number for partition in moves],
        [move.before for move in moves.values()],
        [move.after for move in moves.values()],
    )


def _statement(made: Sequence[datetime | None], now: datetime) -> str:
    """Returns the statement that stores events created at these times.

    If all times are known, it skips the days before the earliest time when it looks for duplicates.
    """
    known = [moment for moment in made if moment is not None]
    first = (min(now, *known) - CLOCKS).date() if len(known) == len(made) else date.min
    return _STORE.format(first=first, last=(now + CLOCKS).date(), today=now.date())


def _made_at(event: NewEvent) -> datetime | None:
    """Returns when the event was created, or None if its time is invalid or too early to calculate with."""
    try:
        made = parse_time(event.time).astimezone(UTC)
        if made.date() > date.min:
            return made
    except (ValueError, OverflowError):
        pass
    _log.warning("timeline.time_unreadable", event_id=event.id)
    return None


def _as_json(events: Sequence[NewEvent]) -> str:
    """Returns the events as rows for ``json_to_recordset``."""
    return orjson.dumps(events, default=embedded_json).decode()
