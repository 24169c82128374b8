"""The transactional outbox: stores messages with the state change and publishes them after the commit."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import orjson
from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.identity import Identity
from libs.contracts.messages import Command, Draft, Event, MessageContext
from libs.eventing._relay import Relay
from libs.eventing.messages import OUTBOX_COLUMNS, OutboxMessage, is_terminal, read_messages
from libs.persistence import Connection, Database, embedded_json
from libs.tracing import current_traceparent

# All rows are one JSON parameter, since adapting a dozen arrays takes the driver three times as long. All transactions
# number subjects in the same order, which prevents deadlocks. Numbering precedes the first insert, so that a subject's
# rows are in the order of their numbers.
_INSERT: Final = """
    WITH given AS MATERIALIZED (
        SELECT *, row_number() OVER (PARTITION BY subject, sequence IS NULL ORDER BY ordinality DESC) - 1 AS later
        FROM ROWS FROM (json_to_recordset(%s) AS (
            event_id text, type text, topic text, subject text, sequence bigint, company_id text, correlation_id text,
            causation_id text, traceparent text, identity jsonb, terminal boolean, payload text, owner_id text,
            cause text
        )) WITH ORDINALITY AS given
        WHERE {condition}
    ), numbered AS (
        INSERT INTO event_sequences AS s (subject, last)
        SELECT subject, count(*) FROM given WHERE sequence IS NULL GROUP BY subject ORDER BY subject
        ON CONFLICT (subject) DO UPDATE SET last = s.last + EXCLUDED.last RETURNING subject, last
    )
    INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, causation_id,
                        traceparent, identity, terminal, payload, owner_id, cause)
    SELECT event_id, type, topic, subject, coalesce(sequence, last - later), company_id, correlation_id, causation_id,
           traceparent, identity, terminal, convert_to(payload, 'UTF8'), owner_id,
           cause
    FROM given LEFT JOIN numbered USING (subject) ORDER BY ordinality
    RETURNING event_id, id, created_at, sequence
"""
_OUTCOME: Final = f"SELECT {OUTBOX_COLUMNS} FROM outbox WHERE causation_id = %s AND terminal"
_EVENTS: Final = f"""
    SELECT {OUTBOX_COLUMNS} FROM outbox WHERE subject = %s AND company_id = %s AND sequence > %s ORDER BY sequence
"""
_PAYLOAD: Final = "SELECT payload FROM outbox WHERE event_id = %s AND company_id = %s"
_FAILURES: Final = """
    SELECT correlation_id, company_id, type, subject, created_at AS at, cause FROM outbox
    WHERE cause IS NOT NULL AND (%(correlation_id)s::text IS NULL OR correlation_id = %(correlation_id)s)
    ORDER BY id DESC LIMIT %(limit)s
"""


class Transaction:
    """A database transaction and the messages that it adds to the outbox."""

    def __init__(self, connection: Connection, context: MessageContext | None) -> None:
        self.connection = connection
        self.drafts: list[Draft] = []
        self._context = context

    def emit(
        self,
        event: Event,
        *,
        subject: str,
        owner_id: str | None = None,
        sequence: int | None = None,
        context: MessageContext | None = None,
        cause: str | None = None,
    ) -> None:
        """Stores an event about ``subject``, to be published right after the commit.

        ``owner_id``, the user who can see the event, defaults to the context's owner. ``cause`` describes the exception
        behind an internal error that the event reports.
        """
        context = context or self._context
        if context is None:
            raise ValueError("an event needs a message context")
        if owner_id is not None:
            context = replace(context, owner_id=owner_id)
        self.drafts.append(Draft(event, subject=subject, context=context, sequence=sequence, cause=cause))

    def send(
        self, command: Command, *, command_id: str, subject: str, identity: Identity, context: MessageContext
    ) -> None:
        """Stores a command to another service, to be sent right after the commit on behalf of ``identity``.

        Commands with the same ``subject`` arrive in order. A command that isn't accepted within three days is rejected.
        """
        context = replace(context, causation_id=None, owner_id=None)
        self.drafts.append(Draft(command, subject=subject, context=context, message_id=command_id, identity=identity))


class Outbox:
    """Stores messages with the state change. ``relay`` publishes them; if it's None, another process does."""

    def __init__(self, database: Database, relay: Relay | None = None) -> None:
        self._database = database
        self._relay = relay

    @asynccontextmanager
    async def transaction(self, context: MessageContext | None = None) -> AsyncIterator[Transaction]:
        """Opens a transaction that stores the emitted messages when it commits."""
        async with self._database.connection() as connection:
            stored: Sequence[OutboxMessage] = ()
            async with connection.transaction():
                transaction = Transaction(connection, context)
                yield transaction
                if transaction.drafts:
                    stored = await (await _insert(connection, transaction.drafts)).messages()
            # Messages are queued before the connection is returned, since the next transaction on it may write events
            # of the same subject.
            self.publish(stored)

    @asynccontextmanager
    async def pipelined(self, *, recording_where: str = "true") -> AsyncIterator[Transaction]:
        """Opens a transaction for hot paths that sends its statements as a pipeline.

        Only fetching a result costs a round trip. Every message needs its own context. ``recording_where`` is an SQL
        condition on ``given.subject``. Messages that don't match it aren't stored, so whether a message is stored can
        depend on results that this process doesn't know yet.
        """
        insertion: _Insertion | None = None
        async with self._database.pipelined() as connection:
            transaction = Transaction(connection, None)
            yield transaction
            if transaction.drafts:
                insertion = await _insert(connection, transaction.drafts, recording_where)
        if insertion is not None:
            self.publish(await insertion.messages())

    def publish(self, stored: Sequence[OutboxMessage]) -> None:
        """Queues stored messages for the relay, in commit order and without waiting."""
        if self._relay is not None:
            self._relay.publish(stored)

    def send_now(self) -> None:
        """Sends buffered messages now, so that they precede any message that the caller sends directly."""
        if self._relay is not None:
            self._relay.send_now()

    async def republish(self, event: OutboxMessage) -> None:
        """Publishes a stored event again, after the subject's unpublished earlier events. Raises ``BusUnavailable``."""
        assert self._relay is not None, "a process that handles commands has a relay"
        await self._relay.republish(event)

    async def outcome(self, command_id: str) -> OutboxMessage | None:
        """Returns the command's terminal event, or None if the command hasn't ended."""
        found = await read_messages(self._database, _OUTCOME, (command_id,))
        return found[0] if found else None

    async def events(self, subject: str, company_id: str, *, after: int) -> list[OutboxMessage]:
        """Returns the subject's events whose sequence is above ``after``, in order."""
        return await read_messages(self._database, _EVENTS, (subject, company_id, after))

    async def failures(self, correlation_id: str | None, limit: int) -> list[dict[str, Any]]:
        """Returns the events that report an internal error, with the error's cause, newest first."""
        return await self._database.records(_FAILURES, {"correlation_id": correlation_id, "limit": limit})

    async def payload(self, event_id: str, company_id: str) -> bytes | None:
        """Returns the payload of a company's event, or None if the event doesn't exist."""
        found: bytes | None = await self._database.value(_PAYLOAD, (event_id, company_id))
        return found


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Messages whose insertion is pending, since a pipeline returns results later."""

    rows: Sequence[dict[str, Any]]
    inserted: AsyncCursor[TupleRow]

    async def messages(self) -> list[OutboxMessage]:
        """Returns the stored messages in the order of emission."""
        rows = {row["event_id"]: row for row in self.rows}
        return [
            OutboxMessage(**{**rows[event_id], "id": row_id, "created_at": created_at, "sequence": sequence})
            for event_id, row_id, created_at, sequence in await self.inserted.fetchall()
        ]


async def _insert(connection: Connection, drafts: Sequence[Draft], condition: str = "true") -> _Insertion:
    rows = [_row(draft) for draft in drafts]
    given = [
        {
            **row,
            "payload": embedded_json(row["payload"]),
            "terminal": row["causation_id"] is not None and is_terminal(row["type"]),
            "cause": draft.cause,
        }
        for row, draft in zip(rows, drafts, strict=True)
    ]
    return _Insertion(rows, await connection.execute(_statement(condition), (orjson.dumps(given).decode(),)))


@cache
def _statement(condition: str) -> str:
    return _INSERT.format(condition=condition)


def _row(draft: Draft) -> dict[str, Any]:
    context = draft.context
    return {
        "event_id": draft.message_id,
        "type": draft.type or draft.message.TYPE,
        "topic": draft.topic or draft.message.TOPIC.name,
        "subject": draft.subject,
        "sequence": draft.sequence,
        "company_id": context.company_id,
        "correlation_id": context.correlation_id,
        "causation_id": context.causation_id,
        "traceparent": context.traceparent or current_traceparent(),
        "identity": None if draft.identity is None else draft.identity.model_dump(mode="json"),
        "payload": draft.message.encode() if draft.encoded is None else draft.encoded,
        "owner_id": context.owner_id,
    }
