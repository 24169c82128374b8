"""Correlation IDs and OpenTelemetry spans. All spans with the same correlation ID form one trace."""

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
