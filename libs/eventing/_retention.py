"""Deletes expired rows of the outbox, the inbox and the service's tables."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import structlog

from libs.eventing import _metrics as metrics
from libs.persistence import Connection, Database, TaskLease, is_outage

_log = structlog.get_logger("eventing.retention")
# Must be longer than the bus retains commands, since a redelivery must find the outcome of the first delivery.
_DAYS: Final = 8
_INTERVAL_SECONDS: Final = 600.0
# Rows can appear before deleted rows: after failover to a standby that lacks the last deletions, or if the database's
# clock was days ahead.
_FROM_FIRST_SECONDS: Final = 86_400.0
_ROWS: Final = 1000
_SLICE_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 1.0
_LEASE_SECONDS: Final = 60.0

# The batch follows the primary key, which matches the order of writing to within seconds. An index by age would slow
# down each insert. The DELETE checks again, since a row may have changed while the DELETE waited for it.
_DELETE_MESSAGES: Final = """
    WITH batch AS MATERIALIZED (
        SELECT id, subject, created_at < now() - make_interval(days => %(days)s) AS old,
               published_at IS NOT NULL OR parked_at IS NOT NULL AS done
        FROM outbox WHERE id > %(after)s ORDER BY id LIMIT %(limit)s
    ), gone AS (
        DELETE FROM outbox
        WHERE id = ANY(ARRAY(SELECT id FROM batch WHERE old AND done))
          AND created_at < now() - make_interval(days => %(days)s)
          AND (published_at IS NOT NULL OR parked_at IS NOT NULL)
        RETURNING subject
    ), found AS (
        SELECT max(id) AS last FROM batch WHERE old
    )
    SELECT last, (SELECT count(*) FROM gone), (SELECT count(*) FROM batch WHERE id <= last),
           (SELECT array_agg(DISTINCT subject) FROM gone)
    FROM found WHERE last IS NOT NULL
"""
# A retained message keeps its subject's number. A concurrent insert locks and changes the number's row.
_DELETE_NUMBERS: Final = """
    WITH unneeded AS MATERIALIZED (
        SELECT s.ctid AS place, s.last FROM event_sequences s
        WHERE s.subject = ANY(%s) AND NOT EXISTS (SELECT FROM outbox o WHERE o.subject = s.subject){without}
    )
    DELETE FROM event_sequences s USING unneeded u WHERE s.ctid = u.place AND s.last = u.last
"""
# Each batch starts where the last batch ended, since the index lists deleted rows until a vacuum. A row that changes
# concurrently gets another ctid and is left to the next pass. PostgreSQL minor releases before the end of 2025, such as
# 16.2, don't recheck ctid after a wait, so the DELETE repeats the age condition.
_DELETE: Final = """
    WITH batch AS MATERIALIZED (
        SELECT ctid, {since} AS since, {id} AS id, {unneeded} AS ended FROM {table} t
        WHERE {expired} AND {condition} {after}
        ORDER BY {since}, {id} LIMIT %(limit)s
    ), gone AS (
        DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM batch WHERE ended)) AND {expired}
        RETURNING {id}::text AS id
    ), numbers AS (
        DELETE FROM event_sequences WHERE subject = ANY(ARRAY(SELECT id FROM gone WHERE id IS NOT NULL))
    )
    SELECT since, id, (SELECT count(*) FROM gone), (SELECT count(*) FROM batch)
    FROM batch ORDER BY since DESC, id DESC LIMIT 1
"""
# The gateway's IDs are of type uuid. Subjects in another format don't match any row.
_AS_UUID: Final = """
    CASE WHEN {subject} ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$' THEN {subject}::uuid END
"""


class Position(NamedTuple):
    """The position of a row in the order in which its table is purged."""

    since: Any
    id: Any = None


class PurgedBatch(NamedTuple):
    """The numbers of rows ``deleted`` and ``kept`` up to the position ``last``, which is None if no row is old enough.

    ``has_more`` is true if more rows may follow.
    """

    deleted: int
    kept: int
    last: Position | None
    has_more: bool


EMPTY_BATCH: Final = PurgedBatch(0, 0, None, has_more=False)
_Purge = Callable[[Connection, Position | None], Awaitable[PurgedBatch]]


@dataclass(frozen=True, slots=True)
class Expiry:
    """The rows of a table that expire some days after the time in the column ``since``.

    The column ``id`` contains the subject of the row's events; the subject's event number is deleted with the row. The
    SQL ``condition``, which is also the condition of the index on ``since``, selects the rows to read. A row is deleted
    only if the SQL ``unneeded`` is true. Both refer to the row as ``t``. ``days`` overrides the service's setting.
    """

    table: str
    since: str
    id: str | None = None
    condition: str = "true"
    unneeded: str = "true"
    days: int | None = None

    @property
    def goes_by_age(self) -> bool:
        """Returns whether rows expire by age alone."""
        return self.id is None and self.condition == "true"

    async def purge(self, connection: Connection, after: Position | None, *, days: int, limit: int) -> PurgedBatch:
        """Deletes unneeded rows among the next ``limit`` rows after the position ``after``."""
        since, key = self.since, self.id or "NULL::text"
        behind = f"{since} >= %(since)s" if self.id is None else f"({since}, {key}) > (%(since)s, %(id)s)"
        statement = _DELETE.format(
            table=self.table,
            since=since,
            id=key,
            expired=f"{since} < now() - make_interval(days => %(days)s)",
            condition=self.condition,
            unneeded=self.unneeded,
            after="" if after is None else f"AND {behind}",
        )
        begin = {} if after is None else after._asdict()
        row = await (await connection.execute(statement, {"days": days, "limit": limit, **begin})).fetchone()
        if row is None:
            return EMPTY_BATCH
        at, last, deleted, read = row
        # Without an ID, the next batch starts at the last row's timestamp. If nothing was deleted, it could read the
        # same rows again.
        has_more = read == limit and (deleted > 0 or self.id is not None)
        return PurgedBatch(deleted, read - deleted, Position(at, last), has_more=has_more)


_INBOX: Final = Expiry("inbox", since="received_at")


@dataclass(frozen=True, slots=True)
class EntityTable:
    """A table whose column ``id``, of type uuid or text, contains the subjects of events."""

    table: str
    id: str = "id"
    is_uuid: bool = False

    def has(self, subject: str) -> str:
        """Returns an SQL expression that is true if the table contains the subject."""
        value = _AS_UUID.format(subject=subject) if self.is_uuid else subject
        return f"EXISTS (SELECT FROM {self.table} WHERE {self.id} = {value})"


@dataclass(slots=True)
class _Progress:
    """The positions at which purging a table resumes: ``at`` in this pass, ``gone_up_to`` in the next one.

    A pass that began with the first row would scan all rows deleted since the last vacuum.
    """

    at: Position | None = None
    gone_up_to: Position | None = None
    _kept_none: bool = True

    def begin(self) -> None:
        self.at, self._kept_none = self.gone_up_to, True

    def advance(self, batch: PurgedBatch, *, by_age: bool) -> None:
        """Moves past a batch. ``by_age`` is true if new rows never precede deleted rows."""
        self.at = batch.last or self.at
        self._kept_none = self._kept_none and not batch.kept
        if by_age and self._kept_none:
            self.gone_up_to = self.at


class Retention:
    """Purges tables in batches of ``rows`` and in time slices, so that other work isn't delayed.

    The outbox and inbox aren't partitioned by day, since their unique indexes would then apply only within a day.
    """

    def __init__(self, service: str = "", *, rows: int = _ROWS, slice_seconds: float = _SLICE_SECONDS) -> None:
        self._service = service
        self._rows = rows
        self._slice = slice_seconds
        self._purges: dict[str, tuple[_Purge, bool]] = {"outbox": (self._purge_outbox, True)}
        self._entities: list[EntityTable] = []
        self._left: list[str] = []
        self._progress: defaultdict[str, _Progress] = defaultdict(_Progress)
        self._from_first_at = 0.0
        self.add(_INBOX, _DAYS)

    def add(self, expiry: Expiry, days: int) -> None:
        """Registers rows for deletion after ``days``, unless ``expiry`` specifies its own number of days."""
        purge = partial(expiry.purge, days=expiry.days or days, limit=self._rows)
        self._purges[expiry.table] = purge, expiry.goes_by_age

    def count_removed(self, table: str, rows: int) -> None:
        """Adds rows that the service has deleted to the metric of expired rows."""
        metrics.PURGED.labels(self._service, table).inc(rows)

    def register_subject_tables(self, *entities: EntityTable) -> None:
        """Registers all tables that contain subjects of events.

        A subject's event number is deleted once none of these tables contains the subject.
        """
        self._entities += entities

    async def run(self, database: Database) -> None:
        """Runs a pass every ten minutes until cancelled, in one process at a time."""
        lease = TaskLease(database, "retention", _LEASE_SECONDS)
        while True:
            while await lease.take():
                async with database.connection() as connection:
                    if not await self.purge(connection):
                        break
                await asyncio.sleep(_PAUSE_SECONDS)
            await lease.release()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def purge(self, connection: Connection) -> bool:
        """Deletes expired rows for a time slice. Returns whether the pass is unfinished."""
        now = asyncio.get_running_loop().time
        until = now() + self._slice
        if not self._left:
            self._left = list(self._purges)
            if now() >= self._from_first_at:
                self._from_first_at = now() + _FROM_FIRST_SECONDS
                self._progress.clear()
            for progress in self._progress.values():
                progress.begin()
        while self._left:
            # Round-robin, so that a slow or failing table doesn't block the others.
            table = self._left.pop(0)
            if await self._step(table, connection):
                self._left.append(table)
            if now() >= until:
                break
        return bool(self._left)

    async def _step(self, table: str, connection: Connection) -> bool:
        """Deletes a batch of a table's rows. Returns whether this pass should delete another batch."""
        (purge, by_age), progress = self._purges[table], self._progress[table]
        try:
            batch = await purge(connection, progress.at)
        except Exception as problem:
            metrics.PURGE_FAILURES.labels(self._service, table).inc()
            if is_outage(problem):
                _log.warning("retention.postponed", table=table, problem=str(problem).strip())
            else:
                _log.exception("retention.failed", table=table)
            return False
        progress.advance(batch, by_age=by_age)
        self._count(table, batch.deleted)
        return batch.has_more

    async def _purge_outbox(self, connection: Connection, after: Position | None) -> PurgedBatch:
        given = {"days": _DAYS, "after": 0 if after is None else after.id, "limit": self._rows}
        async with connection.transaction():
            row = await (await connection.execute(_DELETE_MESSAGES, given)).fetchone()
            if row is None:
                return EMPTY_BATCH
            last, deleted, read, subjects = row
            if subjects and self._entities:
                # Numbers of entities that were deleted without a tombstone, single commands, and rejected commands.
                await self._purge_numbers(connection, subjects)
        return PurgedBatch(deleted, read - deleted, Position(None, last), has_more=True)

    async def _purge_numbers(self, connection: Connection, subjects: Sequence[str]) -> None:
        """Deletes the event numbers of subjects that have no messages left and aren't in any registered table."""
        without = "".join(f" AND NOT {each.has('s.subject')}" for each in self._entities)
        cursor = await connection.execute(_DELETE_NUMBERS.format(without=without), (list(subjects),))
        self._count("event_sequences", cursor.rowcount)

    def _count(self, table: str, deleted: int) -> None:
        if deleted:
            metrics.PURGED.labels(self._service, table).inc(deleted)
