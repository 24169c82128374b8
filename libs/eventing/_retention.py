"""Deletes rows of outbox, inbox and tables of the owner after their time, with the numbers of their events."""

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
# Longer than commands are kept on the bus: a redelivery must find what became of the first delivery.
_DAYS: Final = 8
_INTERVAL_SECONDS: Final = 600.0
# Rows can come back before others that were deleted: when a standby takes over that lacks the last deletions, or when
# the database's clock was days ahead.
_FROM_FIRST_SECONDS: Final = 86_400.0
_ROWS: Final = 1000
_SLICE_SECONDS: Final = 0.5
_PAUSE_SECONDS: Final = 1.0
_LEASE_SECONDS: Final = 60.0

# Along the primary key, in the order of writing but for seconds: an index by age would make each insert slower.
# The deletion asks again: one that waited for a row finds it as it is now, and it may be meant to be sent once more.
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
# A message that is kept keeps the number of its subject. One that is written meanwhile locks and changes the row.
_DELETE_NUMBERS: Final = """
    WITH unneeded AS MATERIALIZED (
        SELECT s.ctid AS place, s.last FROM event_sequences s
        WHERE s.subject = ANY(%s) AND NOT EXISTS (SELECT FROM outbox o WHERE o.subject = s.subject){without}
    )
    DELETE FROM event_sequences s USING unneeded u WHERE s.ctid = u.place AND s.last = u.last
"""
# Each batch begins where the one before ended: until a vacuum the index goes on to name all rows that are gone.
# A row that changes meanwhile has another ctid, and is left to the next time. PostgreSQL's minor releases before the
# end of 2025, such as 16.2, do not compare it again after a wait: whether the row still goes is asked beside it.
# Rows that stay are read once in a pass, like those that go.
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
# Ids of the gateway are of type uuid; subjects that are none name no row.
_AS_UUID: Final = """
    CASE WHEN {subject} ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$' THEN {subject}::uuid END
"""


class Position(NamedTuple):
    """The position of a row in the order in which its table is purged."""

    since: Any
    id: Any = None


class PurgedBatch(NamedTuple):
    """The result of a batch: the number of rows that it deleted, and of those up to the ``last`` one that it kept.

    ``last`` is None when no row is old enough. ``goes_on``: there may be more after it.
    """

    deleted: int
    kept: int
    last: Position | None
    goes_on: bool


EMPTY_BATCH: Final = PurgedBatch(0, 0, None, goes_on=False)
_Purge = Callable[[Connection, Position | None], Awaitable[PurgedBatch]]


@dataclass(frozen=True, slots=True)
class Expiry:
    """Rows of a table that go some days after the time in the column ``since``, oldest first.

    ``id``, if it is given, is the subject of events about the row, whose numbers go with it. ``condition`` is SQL about
    the row ``t`` that the index of ``since`` has, too; rows that do not fulfil it are not looked at. Those for which
    the SQL ``unneeded`` is false stay. ``days``: those of the service's settings, unless given.
    """

    table: str
    since: str
    id: str | None = None
    condition: str = "true"
    unneeded: str = "true"
    days: int | None = None

    @property
    def goes_by_age(self) -> bool:
        """Whether rows go by age alone, so that none appears before one that was deleted."""
        return self.id is None and self.condition == "true"

    async def purge(self, connection: Connection, after: Position | None, *, days: int, limit: int) -> PurgedBatch:
        """Deletes of the next ``limit`` rows after that position those that are not needed any more."""
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
        # Rows of one time that stay would be read again by the next batch, and the next.
        goes_on = read == limit and (deleted > 0 or self.id is not None)
        return PurgedBatch(deleted, read - deleted, Position(at, last), goes_on=goes_on)


_INBOX: Final = Expiry("inbox", since="received_at")


@dataclass(frozen=True, slots=True)
class EntityTable:
    """A table whose rows are subjects of events by the column ``id``, of type uuid or text."""

    table: str
    id: str = "id"
    is_uuid: bool = False

    def has(self, subject: str) -> str:
        """SQL: whether the table has a row for it."""
        value = _AS_UUID.format(subject=subject) if self.is_uuid else subject
        return f"EXISTS (SELECT FROM {self.table} WHERE {self.id} = {value})"


@dataclass(slots=True)
class _Progress:
    """The positions in a table where the purge goes on: ``at`` in this pass, ``gone_up_to`` in the next one.

    Beginning at the first row, each pass would walk again along all that are gone since the last vacuum, which comes
    late in a large table.
    """

    at: Position | None = None
    gone_up_to: Position | None = None
    _kept_none: bool = True

    def begin(self) -> None:
        self.at, self._kept_none = self.gone_up_to, True

    def advance(self, batch: PurgedBatch, *, by_age: bool) -> None:
        """Moves past a batch. ``by_age``: no row appears before one that was deleted."""
        self.at = batch.last or self.at
        self._kept_none = self._kept_none and not batch.kept
        if by_age and self._kept_none:
            self.gone_up_to = self.at


class Retention:
    """Goes through the tables in batches of ``rows``, in slices of time, so that other work is not kept waiting.

    Outbox and inbox aren't partitioned by day, since unique indexes would then hold within a day only. These guarantee
    one effect of a subject's sequence number, a command's outcome and a consumer's message.
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
        """Has these rows deleted, too: after that many days, unless they have their own."""
        purge = partial(expiry.purge, days=expiry.days or days, limit=self._rows)
        self._purges[expiry.table] = purge, expiry.goes_by_age

    def count_removed(self, table: str, rows: int) -> None:
        """Counts rows of the service that others removed after their time."""
        metrics.PURGED.labels(self._service, table).inc(rows)

    def know(self, *entities: EntityTable) -> None:
        """Has numbers of events deleted whose subjects are in none of these tables, which have all that has numbers."""
        self._entities += entities

    async def run(self, database: Database) -> None:
        """Makes a pass every ten minutes, unless another process makes one, until cancelled."""
        lease = TaskLease(database, "retention", _LEASE_SECONDS)
        while True:
            while await lease.take():
                async with database.connection() as connection:
                    if not await self.keep(connection):
                        break
                await asyncio.sleep(_PAUSE_SECONDS)
            await lease.release()
            await asyncio.sleep(_INTERVAL_SECONDS)

    async def keep(self, connection: Connection) -> bool:
        """Deletes old rows for a slice of time; returns whether something of this pass is left."""
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
            # In turn: one that takes long, or fails, keeps none of the others waiting.
            table = self._left.pop(0)
            if await self._step(table, connection):
                self._left.append(table)
            if now() >= until:
                break
        return bool(self._left)

    async def _step(self, table: str, connection: Connection) -> bool:
        """Deletes a batch; returns whether there may be more. A failure is left to the next time."""
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
        return batch.goes_on

    async def _purge_outbox(self, connection: Connection, after: Position | None) -> PurgedBatch:
        given = {"days": _DAYS, "after": 0 if after is None else after.id, "limit": self._rows}
        async with connection.transaction():
            row = await (await connection.execute(_DELETE_MESSAGES, given)).fetchone()
            if row is None:
                return EMPTY_BATCH
            last, deleted, read, subjects = row
            if subjects and self._entities:
                # Of what was deleted without a tombstone, of single commands, and of ids that rejected commands named.
                await self._purge_numbers(connection, subjects)
        return PurgedBatch(deleted, read - deleted, Position(None, last), goes_on=True)

    async def _purge_numbers(self, connection: Connection, subjects: Sequence[str]) -> None:
        """Deletes the numbers of those of the subjects that no message and no row of an entity is about."""
        without = "".join(f" AND NOT {each.has('s.subject')}" for each in self._entities)
        cursor = await connection.execute(_DELETE_NUMBERS.format(without=without), (list(subjects),))
        self._count("event_sequences", cursor.rowcount)

    def _count(self, table: str, deleted: int) -> None:
        if deleted:
            metrics.PURGED.labels(self._service, table).inc(deleted)
