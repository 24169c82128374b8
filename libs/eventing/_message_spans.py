"""Spans of messages, by the semantic conventions of messaging."""

from dataclasses import replace

from libs import tracing
from libs.contracts.envelope import Envelope
from libs.eventing._bus import Record


def sending(topic: str, envelope: Envelope) -> tracing.Span:
    """A span of sending a message; ``carrying`` puts it into the message."""
    return tracing.span(
        f"send {topic}",
        tracing.Kind.PRODUCER,
        _attributes("send", topic, envelope),
        correlation_id=envelope.correlation_id,
        parent=envelope.traceparent,
    )


def carrying(envelope: Envelope) -> Envelope:
    """The message with the current span as the parent of its receiver's."""
    trace = tracing.current_traceparent()
    return envelope if trace is None else replace(envelope, traceparent=trace)


def processing(record: Record, envelope: Envelope) -> tracing.Span:
    """A span of handling a message."""
    return tracing.span(
        f"process {record.topic}",
        tracing.Kind.CONSUMER,
        _attributes("process", record.topic, envelope),
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
