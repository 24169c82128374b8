"""Correlation IDs and spans. While tracing is off, a span costs only one check."""

import os
from collections.abc import Mapping
from contextvars import ContextVar, copy_context
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, Self

import structlog
from opentelemetry.trace import INVALID_SPAN_CONTEXT, NonRecordingSpan, SpanKind

if TYPE_CHECKING:
    from libs.tracing._exporting import ExportingTracer

Kind = SpanKind
Value = str | int | float | bool
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Span(NonRecordingSpan):
    """A span of work, which ends with a call of ``end`` or with its ``with`` block. This class records nothing.

    Spans created meanwhile in the same task, or in tasks that it starts, are children of this span. If the ``with``
    block raises an exception, the exception's type is recorded.
    """

    def set(self, key: str, value: Value | None) -> None:
        """Sets an attribute to an ID, name or number, never to content. ``None`` is ignored."""

    def fail(self, problem: str) -> None:
        """Marks the work as failed. ``problem`` is the kind of error and not its message, which may quote content."""

    def __enter__(self) -> Self:
        return self


NOTHING: Final = Span(INVALID_SPAN_CONTEXT)
_tracer: "ExportingTracer | None" = None


def start(service: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Turns tracing on if OpenTelemetry's environment variables specify a collector. Returns whether it's on."""
    global _tracer
    wanted = any(environ.get(name) for name in _ENDPOINTS) and environ.get("OTEL_TRACES_EXPORTER") != "none"
    if not wanted or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    # The SDK is imported late, since the import takes a quarter of a second and memory.
    from libs.tracing._exporting import ExportingTracer

    _tracer = ExportingTracer(service, environ)
    return True


def stop() -> None:
    """Sends the remaining spans, for up to two seconds, and turns tracing off."""
    global _tracer
    tracer, _tracer = _tracer, None
    if tracer is not None:
        tracer.stop()


def span(
    name: str,
    kind: Kind = Kind.INTERNAL,
    attributes: Mapping[str, Value | None] | None = None,
    *,
    correlation_id: str | None = None,
    parent: str | None = None,
    link: str | None = None,
    began: int | None = None,
) -> Span:
    """Starts a span as a child of ``parent`` (a ``traceparent``), or of the current span.

    ``correlation_id`` determines the span's trace. A parent in another trace is only linked, and so is the span
    ``link``. ``began`` is the start in Unix nanoseconds, for work that started earlier.
    """
    if _tracer is None:
        return NOTHING
    return _tracer.span(name, kind, attributes, correlation_id, parent, link, began)


def is_on() -> bool:
    """Returns whether spans are recorded."""
    return _tracer is not None


def resume(parent: str | None, correlation_id: str) -> None:
    """Makes later spans of this task children of ``parent``, in the trace of the correlation ID."""
    if _tracer is not None:
        _tracer.resume(parent, correlation_id)


def current_traceparent() -> str | None:
    """Returns the W3C ``traceparent`` of the current span, if any."""
    return None if _tracer is None else _tracer.traceparent()


def span_id() -> str | None:
    """Returns the ID of the current span, if any."""
    return None if _tracer is None else _tracer.span_id()


@lru_cache(maxsize=4096)
def trace_id_of(correlation_id: str) -> str:
    """Derives the trace ID from the correlation ID: the first half of its SHA-256, as 32 hexadecimal digits."""
    return sha256(correlation_id.encode()).hexdigest()[:32]


def _bound_by_structlog(name: str) -> ContextVar[Any]:
    # Reading a value through structlog would copy all context variables. A token of structlog contains the variable.
    return copy_context().run(structlog.contextvars.bind_contextvars, **{name: ""})[name].var


_correlation_id: Final = _bound_by_structlog("correlation_id")


def current_correlation_id() -> str | None:
    """Returns the correlation ID of the current request or message."""
    value = _correlation_id.get(None)
    return value if isinstance(value, str) else None


def bind_correlation_id(correlation_id: str) -> None:
    """Replaces the current correlation ID, for example with one from the request's body."""
    _correlation_id.set(correlation_id)
