"""Correlation ids, and spans on OpenTelemetry: one trace for everything under a correlation id, over all services."""

from libs.tracing._spans import (
    NOTHING,
    Kind,
    Span,
    Value,
    bind_correlation_id,
    current_correlation_id,
    current_traceparent,
    is_on,
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
    "bind_correlation_id",
    "current_correlation_id",
    "current_traceparent",
    "is_on",
    "resume",
    "span",
    "span_id",
    "start",
    "stop",
    "trace_id_of",
]
