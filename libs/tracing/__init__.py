"""Spans on OpenTelemetry: one trace for everything under a correlation id, over all services."""

from libs.tracing._spans import (
    NOTHING,
    Kind,
    Span,
    Value,
    current_traceparent,
    resume,
    span,
    span_id,
    start,
    stop,
    trace_id_of,
)

__all__ = [
    "NOTHING",
    "Kind",
    "Span",
    "Value",
    "current_traceparent",
    "resume",
    "span",
    "span_id",
    "start",
    "stop",
    "trace_id_of",
]
