"""Spans of the OpenTelemetry SDK, exported over OTLP/HTTP."""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextvars import ContextVar
from threading import Thread
from types import TracebackType
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from libs.tracing._spans import Kind, Span, Value, trace_id_of

_STOP_SECONDS: Final = 2.0
_CORRELATION: Final = create_key("aes.correlation_id")
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_next_trace_id: ContextVar[int | None] = ContextVar("next_trace_id", default=None)


class _CorrelationIds(RandomIdGenerator):
    """Takes trace IDs from a context variable, since the SDK doesn't specify which span an ID is for."""

    def generate_trace_id(self) -> int:
        return _next_trace_id.get() or super().generate_trace_id()

    def is_trace_id_random(self) -> bool:
        return False


class ExportingTracer:
    """A tracer with a private provider. With a global provider, instrumented libraries would record content."""

    def __init__(self, service: str, environ: Mapping[str, str]) -> None:
        resource = Resource.create(
            {
                "service.name": environ.get("OTEL_SERVICE_NAME") or f"aes-{service}",
                "service.namespace": "agent-execution-service",
                "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
            }
        )
        # The collector, batching and sampling are configured by OTEL_EXPORTER_OTLP_…, OTEL_BSP_… and
        # OTEL_TRACES_SAMPLER.
        self._provider = TracerProvider(resource=resource, id_generator=_CorrelationIds(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("aes")

    def span(
        self,
        name: str,
        kind: Kind,
        attributes: Mapping[str, Value | None] | None,
        correlation_id: str | None,
        parent: str | None,
        link: str | None,
        began: int | None,
    ) -> Span:
        links = [_span_context(link)] if link else []
        above = _current() if parent is None else _span_context(parent)
        correlation_id = correlation_id or _resumed_correlation()
        wanted = None if correlation_id is None else int(trace_id_of(correlation_id), 16)
        if wanted is not None and above.is_valid and above.trace_id != wanted:
            links.append(above)
            above = trace.INVALID_SPAN_CONTEXT
        token = _next_trace_id.set(wanted)
        try:
            begun = self._tracer.start_span(
                name,
                context=trace.set_span_in_context(NonRecordingSpan(above), Context()),
                kind=kind,
                attributes={key: value for key, value in (attributes or {}).items() if value is not None},
                links=[Link(context) for context in links if context.is_valid],
                start_time=began,
                record_exception=False,
                set_status_on_exception=False,
            )
        finally:
            _next_trace_id.reset(token)
        return _RecordingSpan(begun)

    def resume(self, parent: str | None, correlation_id: str) -> None:
        context = set_value(_CORRELATION, correlation_id, Context())
        above = _span_context(parent or "")
        if above.trace_id == int(trace_id_of(correlation_id), 16):
            context = trace.set_span_in_context(NonRecordingSpan(above), context)
        attach(context)

    def traceparent(self) -> str | None:
        headers: dict[str, str] = {}
        _PROPAGATOR.inject(headers)
        return headers.get("traceparent")

    def span_id(self) -> str | None:
        current = _current()
        return trace.format_span_id(current.span_id) if current.is_valid else None

    def stop(self) -> None:
        # Without a collector, the exporter retries for up to half a minute. The process must end sooner.
        shutdown = Thread(target=self._provider.shutdown, daemon=True)
        shutdown.start()
        shutdown.join(_STOP_SECONDS)


class _RecordingSpan(Span):
    """A recorded span. It becomes the current span when it's created."""

    def __init__(self, span: trace.Span) -> None:
        super().__init__(span.get_span_context())
        self._span = span
        self._token = attach(trace.set_span_in_context(span))
        self._ended = False

    def set(self, key: str, value: Value | None) -> None:
        if value is not None:
            self._span.set_attribute(key, value)

    def update_name(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, problem: str) -> None:
        self._span.set_attribute("error.type", problem)
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self, end_time: int | None = None) -> None:
        if not self._ended:
            self._ended = True
            detach(self._token)
            self._span.end(end_time)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            self.fail("cancelled" if issubclass(kind, asyncio.CancelledError) else kind.__name__)
        self.end()


def _current() -> SpanContext:
    return trace.get_current_span().get_span_context()


def _resumed_correlation() -> str | None:
    """Returns the correlation ID that this task resumed, or None once a span has started in the task."""
    found = get_value(_CORRELATION)
    return found if isinstance(found, str) and not _current().is_valid else None


def _span_context(traceparent: str) -> SpanContext:
    """Returns the context in a ``traceparent`` header, or an invalid context if the header is malformed."""
    return trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent}, Context())).get_span_context()
