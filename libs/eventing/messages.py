"""Messages: what a piece of work emits, how the outbox stores it, spans, and payloads too large for the bus."""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final

from libs import tracing
from libs.contracts.messages import Envelope, command_models
from libs.contracts.timestamps import format_time

# As long as command topics keep them. Older ones are replays by hand, which the inbox may have forgotten.
COMMAND_LIFETIME: Final = timedelta(days=3)
_MAX_EVENT_BYTES: Final = 512 * 1024

Fetch = Callable[[str, str, str], Awaitable[bytes]]
"""Reads ``path`` from an owner's internal API for a company: ``(owner, path, company_id)``."""
OnEvent = Callable[[Envelope, bytes], None]
"""Gets an event as it goes over the bus: its envelope and its payload, or no payload when it only refers to it."""


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


OUTBOX_COLUMNS: Final = ", ".join(column.name for column in fields(OutboxMessage))


@cache
def is_terminal(event_type: str) -> bool:
    """Whether an event of this type ends the command that caused it."""
    return any(event_type in command.outcome_types() for command in command_models().values())


def send_span(topic: str, envelope: Envelope) -> tracing.Span:
    """A span of sending a message, by OpenTelemetry's conventions for messaging."""
    return tracing.span(
        f"send {topic}",
        tracing.Kind.PRODUCER,
        _attributes("send", topic, envelope),
        correlation_id=envelope.correlation_id,
        parent=envelope.traceparent,
    )


def with_current_span(envelope: Envelope) -> Envelope:
    """The envelope with the current span as the parent of its receiver's."""
    trace = tracing.current_traceparent()
    return envelope if trace is None else replace(envelope, traceparent=trace)


def process_span(topic: str, envelope: Envelope) -> tracing.Span:
    """A span of handling a message."""
    return tracing.span(
        f"process {topic}",
        tracing.Kind.CONSUMER,
        _attributes("process", topic, envelope),
        correlation_id=envelope.correlation_id,
        parent=envelope.traceparent,
    )


def _attributes(operation: str, topic: str, envelope: Envelope) -> dict[str, tracing.Value | None]:
    return {
        "messaging.system": "kafka",
        "messaging.operation.type": operation,
        "messaging.destination.name": topic,
        "messaging.message.id": envelope.id,
        "aes.message.type": envelope.type,
        "aes.subject": envelope.subject,
        "aes.correlation_id": envelope.correlation_id,
        "aes.company_id": envelope.company_id,
    }


def referring_if_large(envelope: Envelope, payload: bytes) -> tuple[Envelope, bytes]:
    """The envelope and value to send: the payload, or above 512 KiB a reference to where its owner serves it."""
    if len(payload) <= _MAX_EVENT_BYTES:
        return envelope, payload
    path = f"/internal/events/{envelope.id}/payload"
    return replace(envelope, data_ref=path, data_hash=hashlib.sha256(payload).hexdigest()), b""


class PayloadCorrupt(Exception):
    """The fetched bytes do not have the hash in the event."""


class PayloadReader:
    """Reads an event's payload from the message, or from its owner."""

    def __init__(self, fetch: Fetch) -> None:
        self._fetch = fetch

    async def read(self, envelope: Envelope, value: bytes) -> bytes:
        """Raises what the fetch raises, and ``PayloadCorrupt``."""
        if envelope.data_ref is None:
            return value
        owner = envelope.type.split(".")[1]
        fetched = await self._fetch(owner, envelope.data_ref, envelope.company_id)
        if hashlib.sha256(fetched).hexdigest() != envelope.data_hash:
            raise PayloadCorrupt(f"payload of event {envelope.id}")
        return fetched
