"""Rows that end: after a time, with the numbers of their events, and numbers that no entity needs any more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from libs.persistence import Connection

# Ids of the gateway are of type uuid; subjects that are none name no row.
_AS_UUID: Final = """
    CASE WHEN {subject} ~ '^[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}$' THEN {subject}::uuid END
"""
# Each batch begins where the one before ended: until a vacuum the index goes on to name all rows that are gone.
# A row that changes meanwhile has another ctid. PostgreSQL's minor releases before the end of 2025, such as 16.2, do
# not compare it again after a wait: whether the row still goes is asked beside it.
_DELETE: Final = """
    WITH batch AS MATERIALIZED (
        SELECT ctid, {since} AS since FROM {table} t
        WHERE {expired} AND {condition} {after}
        ORDER BY {since} LIMIT %(limit)s
    ), gone AS (
        DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM batch)) AND {expired} RETURNING 1
    )
    SELECT max(since), NULL, (SELECT count(*) FROM gone), count(*) FROM batch HAVING count(*) > 0
"""
# A row that changes meanwhile is left to the next time. Rows that stay are read once in a pass, like those that go.
_DELETE_ENDED: Final = """
    WITH batch AS MATERIALIZED (
        SELECT ctid, {since} AS since, {id} AS id, {unneeded} AS ended FROM {table} t
        WHERE {expired} AND {condition} {after}
        ORDER BY {since}, {id} LIMIT %(limit)s
    ), gone AS (
        DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT ctid FROM batch WHERE ended)) AND {expired}
        RETURNING {id}::text AS id
    ), numbers AS (
        DELETE FROM event_sequences WHERE subject = ANY(ARRAY(SELECT id FROM gone))
    )
    SELECT since, id, (SELECT count(*) FROM gone), (SELECT count(*) FROM batch)
    FROM batch ORDER BY since DESC, id DESC LIMIT 1
"""
# A message that is kept keeps the number of its subject. One that is written meanwhile locks and changes the row.
_DELETE_NUMBERS: Final = """
    WITH unneeded AS MATERIALIZED (
        SELECT s.ctid AS place, s.last FROM event_sequences s
        WHERE s.subject = ANY(%s) AND NOT EXISTS (SELECT FROM outbox o WHERE o.subject = s.subject){without}
    )
    DELETE FROM event_sequences s USING unneeded u WHERE s.ctid = u.place AND s.last = u.last
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

    async def purge(self, connection: Connection, days: int, *, after: Position | None, limit: int) -> PurgedBatch:
        """Deletes of the next ``limit`` rows after that position those that are not needed any more."""
        if self.id is None:
            statement, behind = _DELETE, f"AND {self.since} >= %(since)s"
        else:
            statement, behind = _DELETE_ENDED, f"AND ({self.since}, {self.id}) > (%(since)s, %(id)s)"
        statement = statement.format(
            table=self.table,
            since=self.since,
            expired=f"{self.since} < now() - make_interval(days => %(days)s)",
            id=self.id,
            condition=self.condition,
            unneeded=self.unneeded,
            after="" if after is None else behind,
        )
        begin = {} if after is None else after._asdict()
        cursor = await connection.execute(statement, {"days": days, "limit": limit, **begin})
        row = await cursor.fetchone()
        if row is None:
            return EMPTY_BATCH
        since, last, deleted, read = row
        # Rows of one time that stay would be read again by the next batch, and the next.
        goes_on = read == limit and (deleted > 0 or self.id is not None)
        return PurgedBatch(deleted, read - deleted, Position(since, last), goes_on=goes_on)


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


async def purge_numbers(connection: Connection, subjects: Sequence[str], entities: Sequence[EntityTable]) -> int:
    """Deletes the numbers of those of the subjects that no message and no row of an entity is about.

    They belonged to what was deleted without a tombstone, to single commands, and to ids that rejected commands named.
    Returns how many were deleted.
    """
    without = "".join(f" AND NOT {each.has('s.subject')}" for each in entities)
    cursor = await connection.execute(_DELETE_NUMBERS.format(without=without), (list(subjects),))
    return cursor.rowcount
