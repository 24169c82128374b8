"""The SQL of the outbox."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import Any, Final

import orjson
from psycopg import AsyncCursor
from psycopg.rows import TupleRow, class_row

from libs.contracts.envelope import Envelope
from libs.contracts.timestamps import format_time
from libs.eventing._expiry import EMPTY_BATCH, Position, PurgedBatch
from libs.eventing._messages import MessageDraft, is_terminal
from libs.persistence import Connection, embedded_json, fetch_value


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A row of the outbox: an event, or a command when it has the ``identity`` of a caller."""

    id: int
    created_at: datetime
    event_id: str
    type: str
    topic: str
    subject: str
    sequence: int
    company_id: str
    correlation_id: str
    causation_id: str | None
    traceparent: str | None
    identity: dict[str, Any] | None
    payload: bytes
    owner_id: str | None = None

    def envelope(self, source: str) -> Envelope:
        """The envelope of this message, the same however often it is sent."""
        return Envelope(
            id=self.event_id,
            type=self.type,
            source=source,
            subject=self.subject,
            time=format_time(self.created_at),
            correlation_id=self.correlation_id,
            causation_id=self.causation_id,
            company_id=self.company_id,
            owner_id=self.owner_id,
            sequence=self.sequence,
            traceparent=self.traceparent,
        )

    def log_ids(self) -> dict[str, str]:
        return {"event_id": self.event_id, "correlation_id": self.correlation_id}


_COLUMNS: Final = ", ".join(field.name for field in fields(OutboxMessage))
# One JSON parameter: adapting a dozen arrays costs the driver three times as much. An object read as ``text`` keeps
# its text as it is.
_APPEND: Final = """
    INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, causation_id,
                        traceparent, identity, terminal, payload, owner_id)
    SELECT event_id, type, topic, subject, sequence, company_id, correlation_id, causation_id,
           traceparent, identity, terminal, convert_to(payload, 'UTF8'), owner_id
    FROM json_to_recordset(%s) AS given (
        event_id text, type text, topic text, subject text, sequence bigint, company_id text, correlation_id text,
        causation_id text, traceparent text, identity jsonb, terminal boolean, payload text,
        owner_id text)
    WHERE {condition}
    RETURNING id, created_at, event_id
"""
_ALLOCATE: Final = """
    INSERT INTO event_sequences AS s (subject, last) SELECT * FROM unnest(%s::text[], %s::bigint[])
    ON CONFLICT (subject) DO UPDATE SET last = s.last + EXCLUDED.last RETURNING subject, last
"""
_BEGIN: Final = """
    INSERT INTO event_sequences (subject, last) SELECT id, 1 FROM unnest(%s::text[]) AS given (id) ORDER BY id
"""
_WAITING: Final = "published_at IS NULL AND parked_at IS NULL"
_LEFT_BEHIND: Final = f"SELECT {_COLUMNS} FROM outbox WHERE subject = ANY(%s) AND {_WAITING} ORDER BY id"
_OUTCOME: Final = f"SELECT {_COLUMNS} FROM outbox WHERE causation_id = %s AND terminal"
_EVENTS: Final = f"""
    SELECT {_COLUMNS} FROM outbox WHERE subject = %s AND company_id = %s AND sequence > %s ORDER BY sequence
"""
_PAYLOAD: Final = "SELECT payload FROM outbox WHERE event_id = %s AND company_id = %s"
_MARK: Final = "UPDATE outbox SET published_at = now() WHERE id = ANY(%s) AND published_at IS NULL"
_UNPUBLISHED: Final = f"""
    SELECT {_COLUMNS} FROM outbox
    WHERE {_WAITING} AND (created_at < now() - make_interval(secs => %s) OR subject = ANY(%s))
    ORDER BY id LIMIT %s
"""
_WAITING_SUBJECTS: Final = f"SELECT DISTINCT subject FROM outbox WHERE {_WAITING} AND subject = ANY(%s)"
_FAILED: Final = "UPDATE outbox SET attempts = attempts + 1, last_error = %s WHERE id = %s RETURNING attempts"
# Its number goes to the event that takes its place; a negative one cannot meet any other of the subject.
_PARK: Final = """
    UPDATE outbox SET parked_at = now(), terminal = false, sequence = -id WHERE id = %s AND parked_at IS NULL
"""
_AGE: Final = f"""
    SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float FROM outbox WHERE {_WAITING}
"""
# Along the primary key, in the order of writing but for seconds: an index by age would make each insert slower.
# The deletion asks again: one that waited for a row finds it as it is now, and it may be meant to be sent once more.
_PURGE: Final = """
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


@dataclass(frozen=True, slots=True)
class Insertion:
    """Messages whose statements have been sent to the database; in a pipeline the answers come later."""

    rows: Sequence[dict[str, Any]]
    inserted: AsyncCursor[TupleRow]
    left_behind: AsyncCursor[OutboxMessage] | None

    @property
    def subjects(self) -> list[str]:
        return [row["subject"] for row in self.rows]

    async def earlier(self) -> list[OutboxMessage]:
        """Unpublished messages of the same subjects that were recorded before, oldest first."""
        if self.left_behind is None:
            return []
        own = {row["event_id"] for row in self.rows}
        return [message for message in await self.left_behind.fetchall() if message.event_id not in own]

    async def messages(self) -> list[OutboxMessage]:
        recorded = {event_id: (number, created) for number, created, event_id in await self.inserted.fetchall()}
        return [OutboxMessage(*recorded[row["event_id"]], **row) for row in self.rows if row["event_id"] in recorded]


async def insert(
    connection: Connection,
    drafts: Sequence[MessageDraft],
    continues: Callable[[str, int], bool],
    condition: str = "true",
) -> Insertion:
    """Record messages in the connection's transaction, in the order given.

    ``continues`` tells of a subject and a number whether no other process can have left an earlier one unpublished.
    ``condition``: SQL about ``given.subject``; messages of which it does not hold are left out.
    """
    rows = await _numbered(connection, drafts)
    inserted = await connection.execute(_append(condition), (_as_json(rows),))
    first: dict[str, int] = {}
    for row in rows:
        first.setdefault(row["subject"], row["sequence"])
    doubtful = [subject for subject, sequence in first.items() if not continues(subject, sequence)]
    return Insertion(rows, inserted, await _ask(connection, _LEFT_BEHIND, (doubtful,)) if doubtful else None)


@cache
def _append(condition: str) -> str:
    return _APPEND.format(condition=condition)


async def begin(connection: Connection, subjects: Sequence[str]) -> None:
    """Records that the first number of each of these new subjects is taken."""
    if subjects:
        await connection.execute(_BEGIN, (list(subjects),))


async def _ask(connection: Connection, query: str, parameters: Sequence[Any]) -> AsyncCursor[OutboxMessage]:
    return await connection.cursor(row_factory=class_row(OutboxMessage)).execute(query, parameters)


async def _numbered(connection: Connection, drafts: Sequence[MessageDraft]) -> list[dict[str, Any]]:
    """Rows of the drafts; sequence numbers that they lack are allocated in one statement."""
    lacking = Counter(draft.subject for draft in drafts if draft.sequence is None)
    following = await _allocate(connection, lacking) if lacking else {}
    return [_row(draft, draft.sequence or next(following[draft.subject])) for draft in drafts]


async def _allocate(connection: Connection, counts: Mapping[str, int]) -> dict[str, Iterator[int]]:
    # Sorted: two transactions that lock the same subjects in another order would end in a deadlock.
    subjects = sorted(counts)
    cursor = await connection.execute(_ALLOCATE, (subjects, [counts[subject] for subject in subjects]))
    return {subject: iter(range(last - counts[subject] + 1, last + 1)) for subject, last in await cursor.fetchall()}


def _row(draft: MessageDraft, sequence: int) -> dict[str, Any]:
    context = draft.context
    return {
        "event_id": draft.message_id,
        "type": draft.type or draft.message.TYPE,
        "topic": draft.topic or draft.message.TOPIC.name,
        "subject": draft.subject,
        "sequence": sequence,
        "company_id": context.company_id,
        "correlation_id": context.correlation_id,
        "causation_id": context.causation_id,
        "traceparent": context.traceparent,
        "identity": None if draft.identity is None else draft.identity.model_dump(mode="json"),
        "payload": draft.message.encode() if draft.encoded is None else draft.encoded,
        "owner_id": context.owner_id,
    }


def _as_json(rows: Sequence[dict[str, Any]]) -> str:
    given = [
        {
            **row,
            "payload": embedded_json(row["payload"]),
            "terminal": row["causation_id"] is not None and is_terminal(row["type"]),
        }
        for row in rows
    ]
    return orjson.dumps(given).decode()


async def left_behind(connection: Connection, subjects: list[str]) -> list[OutboxMessage]:
    """Unpublished messages of these subjects, oldest first."""
    return await (await _ask(connection, _LEFT_BEHIND, (subjects,))).fetchall()


async def outcome(connection: Connection, command_id: str) -> OutboxMessage | None:
    return await (await _ask(connection, _OUTCOME, (command_id,))).fetchone()


async def events(connection: Connection, subject: str, company_id: str, after: int) -> list[OutboxMessage]:
    return await (await _ask(connection, _EVENTS, (subject, company_id, after))).fetchall()


async def payload(connection: Connection, event_id: str, company_id: str) -> bytes | None:
    found: bytes | None = await fetch_value(connection, _PAYLOAD, (event_id, company_id))
    return found


async def mark_published(connection: Connection, ids: list[int]) -> None:
    await connection.execute(_MARK, (ids,))


async def unpublished(
    connection: Connection, *, older_than: float, subjects: Sequence[str], limit: int
) -> list[OutboxMessage]:
    """Messages that wait for ``older_than`` seconds, and all of these subjects, in id order."""
    return await (await _ask(connection, _UNPUBLISHED, (older_than, list(subjects), limit))).fetchall()


async def waiting_subjects(connection: Connection, subjects: list[str]) -> set[str]:
    rows = await (await connection.execute(_WAITING_SUBJECTS, (subjects,))).fetchall()
    return {row[0] for row in rows}


async def count_failure(connection: Connection, row_id: int, reason: str) -> int:
    """Counts a failure of the row; returns the number of its failures."""
    return await fetch_value(connection, _FAILED, (reason[:2000], row_id)) or 0


async def park(connection: Connection, row_id: int) -> None:
    """Take a row out of the queue. Its sequence number and its role as an outcome pass to its substitute."""
    await connection.execute(_PARK, (row_id,))


async def waiting(connection: Connection) -> tuple[int, float]:
    """Counts the unpublished messages, with the age of the oldest in seconds."""
    row = await (await connection.execute(_AGE)).fetchone()
    return (0, 0.0) if row is None else (int(row[0]), float(row[1]))


async def purge(
    connection: Connection, days: int, *, after: Position | None, limit: int
) -> tuple[PurgedBatch, Sequence[str]]:
    """Deletes, of the next ``limit`` rows after that id, those published or parked that are ``days`` old.

    Returns also the subjects of what it deleted.
    """
    given = {"days": days, "after": 0 if after is None else after.id, "limit": limit}
    row = await (await connection.execute(_PURGE, given)).fetchone()
    if row is None:
        return EMPTY_BATCH, ()
    last, deleted, read, subjects = row
    return PurgedBatch(deleted, read - deleted, Position(None, last), goes_on=True), subjects or ()
