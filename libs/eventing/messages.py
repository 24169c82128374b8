"""Messages in the outbox, their tracing spans, and payloads that are too large for the bus."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from psycopg.rows import class_row

from libs import tracing
from libs.contracts.messages import Envelope, command_models
from libs.contracts.timestamps import format_time
from libs.persistence import Database, Parameters

# The retention period of command topics. Older commands are manual replays, whose inbox rows may be gone.
COMMAND_LIFETIME: Final = timedelta(days=3)
_MAX_EVENT_BYTES: Final = 512 * 1024

Fetch = Callable[[str, str, str], Awaitable[bytes]]
"""Reads a path of a service's internal API on behalf of a company. Called with ``(service, path, company_id)``."""
OnEvent = Callable[[Envelope, bytes], None]
"""Receives an event's envelope and payload. The payload is empty if the envelope has a ``data_ref``."""


@dataclass(frozen=True, slots=True)
class OutboxMessage:
    """A row of the outbox: an event, or a command if it has the caller's ``identity``."""

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
        """Returns the message's envelope, which is the same each time the message is sent."""
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


OUTBOX_COLUMNS: Final = ", ".join(column.name for column in fields(OutboxMessage))


async def read_messages(database: Database, query: str, parameters: Parameters) -> list[OutboxMessage]:
    """Returns the rows of a query for ``OUTBOX_COLUMNS``."""
    async with database.connection() as connection:
        cursor = connection.cursor(row_factory=class_row(OutboxMessage))
        return await (await cursor.execute(query, parameters)).fetchall()


@cache
def is_terminal(event_type: str) -> bool:
    """Returns whether an event of this type ends the command that caused it."""
    return any(event_type in command.outcome_types() for command in command_models().values())


def send_span(topic: str, envelope: Envelope) -> tracing.Span:
    """Starts a span for sending a message."""
    return _span("send", tracing.Kind.PRODUCER, topic, envelope)


def with_current_span(envelope: Envelope) -> Envelope:
    """Returns the envelope with the current span as the parent of the receiver's span."""
    trace = tracing.current_traceparent()
    return envelope if trace is None else replace(envelope, traceparent=trace)


def process_span(topic: str, envelope: Envelope) -> tracing.Span:
    """Starts a span for processing a message."""
    return _span("process", tracing.Kind.CONSUMER, topic, envelope)


def _span(operation: str, kind: tracing.Kind, topic: str, envelope: Envelope) -> tracing.Span:
    attributes = {
        "messaging.system": "kafka",
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.message.id": envelope.id,
        "aes.message.type": envelope.type,
        "aes.subject": envelope.subject,
        "aes.correlation_id": envelope.correlation_id,
        "aes.company_id": envelope.company_id,
    }
    name, correlation_id = f"{operation} {topic}", envelope.correlation_id
    return tracing.span(name, kind, attributes, correlation_id=correlation_id, parent=envelope.traceparent)


def referring_if_large(envelope: Envelope, payload: bytes) -> tuple[Envelope, bytes]:
    """Returns the envelope and the value to send. A reference in the envelope replaces a payload over 512 KiB."""
    if len(payload) <= _MAX_EVENT_BYTES:
        return envelope, payload
    path = f"/internal/events/{envelope.id}/payload"
    return replace(envelope, data_ref=path, data_hash=hashlib.sha256(payload).hexdigest()), b""


class PayloadCorrupt(Exception):
    """The fetched payload doesn't match the hash in the event."""


class PayloadReader:
    """Reads an event's payload from the message, or from the service that published the event."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def read(self, envelope: Envelope, value: bytes) -> bytes:
        """Returns the payload. Raises ``PayloadCorrupt`` and any error that ``fetch`` raises."""
        if envelope.data_ref is None:
            return value
        owner = envelope.type.split(".")[1]
        fetched = await self._fetch(owner, envelope.data_ref, envelope.company_id)
        if hashlib.sha256(fetched).hexdigest() != envelope.data_hash:
            raise PayloadCorrupt(f"payload of event {envelope.id}")
        return fetched
