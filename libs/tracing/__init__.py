"""One trace for all that a correlation id leads to, over every service; nothing at all while it is switched off."""

from libs.tracing._spans import NOTHING, Kind, Span, Value, current_traceparent, resume, span, span_id, start, stop
from libs.tracing._trace_ids import trace_id_of

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
