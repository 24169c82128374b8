"""Spans by the SDK of OpenTelemetry, sent over OTLP/HTTP."""

import asyncio
import os
import re
import socket
from collections.abc import Mapping
from contextvars import ContextVar, Token
from threading import Thread
from types import TracebackType
from typing import Final, Self

from opentelemetry import trace
from opentelemetry.context import Context, attach, create_key, detach, get_value, set_value
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags

from libs.tracing._spans import Kind, Value
from libs.tracing._trace_ids import trace_id_of

_TRACEPARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_STOP_SECONDS: Final = 2.0
_CORRELATION: Final = create_key("aes.correlation_id")
_KINDS: Final = {kind: SpanKind[kind.name] for kind in Kind}
_next_trace_id: ContextVar[int | None] = ContextVar("next_trace_id", default=None)


class _TraceIds(RandomIdGenerator):
    """Trace ids are asked for without saying for what, so that is laid down beforehand."""

    def generate_trace_id(self) -> int:
        return _next_trace_id.get() or super().generate_trace_id()

    def is_trace_id_random(self) -> bool:
        return False


class OtelTracer:
    """Its provider is not made the global one: libraries that would trace by themselves record contents."""

    def __init__(self, service: str, environ: Mapping[str, str]) -> None:
        named = environ.get("OTEL_SERVICE_NAME") or f"aes-{service}"
        resource = Resource.create(
            {
                "service.name": named,
                "service.namespace": "agent-execution-service",
                "service.instance.id": f"{socket.gethostname()}-{os.getpid()}",
            }
        )
        # Where to, how often and which of them: OTEL_EXPORTER_OTLP_…, OTEL_BSP_… and OTEL_TRACES_SAMPLER.
        self._provider = TracerProvider(resource=resource, id_generator=_TraceIds(), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("aes")

    def span(
        self,
        name: str,
        kind: Kind,
        attributes: Mapping[str, Value | None] | None,
        *,
        correlation_id: str | None,
        parent: str | None,
        link: str | None,
        began: int | None,
    ) -> "OtelSpan":
        links = [_context_of(link)] if link else []
        above = trace.get_current_span().get_span_context() if parent is None else _context_of(parent)
        correlation_id = correlation_id or _correlation_at_hand()
        wanted = int(trace_id_of(correlation_id), 16) if correlation_id is not None else None
        if wanted is not None and above is not None and above.is_valid and above.trace_id != wanted:
            links.append(above)
            above = None
        below = Context() if above is None else trace.set_span_in_context(NonRecordingSpan(above), Context())
        laid_down = _next_trace_id.set(wanted)
        try:
            begun = self._tracer.start_span(
                name,
                context=below,
                kind=_KINDS[kind],
                attributes={key: value for key, value in (attributes or {}).items() if value is not None},
                links=[Link(context) for context in links if context is not None and context.is_valid],
                start_time=began,
                record_exception=False,
                set_status_on_exception=False,
            )
        finally:
            _next_trace_id.reset(laid_down)
        return OtelSpan(begun)

    def resume(self, parent: str | None, correlation_id: str) -> None:
        context = set_value(_CORRELATION, correlation_id, Context())
        above = _context_of(parent) if parent else None
        if above is not None and above.trace_id == int(trace_id_of(correlation_id), 16):
            context = trace.set_span_in_context(NonRecordingSpan(above), context)
        attach(context)

    def traceparent(self) -> str | None:
        at_hand = trace.get_current_span().get_span_context()
        if not at_hand.is_valid:
            return None
        return f"00-{at_hand.trace_id:032x}-{at_hand.span_id:016x}-{at_hand.trace_flags:02x}"

    def span_id(self) -> str | None:
        at_hand = trace.get_current_span().get_span_context()
        return f"{at_hand.span_id:016x}" if at_hand.is_valid else None

    def stop(self) -> None:
        # It tries for up to half a minute when nobody takes the spans; the process is to end before.
        last = Thread(target=self._provider.shutdown, daemon=True)
        last.start()
        last.join(_STOP_SECONDS)


class OtelSpan:
    """A ``Span``; the one at hand from its creation on."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        self._token: Token[Context] | None = attach(trace.set_span_in_context(span))

    def set(self, key: str, value: Value | None) -> None:
        if value is not None:
            self._span.set_attribute(key, value)

    def rename(self, name: str) -> None:
        self._span.update_name(name)

    def fail(self, problem: str) -> None:
        self._span.set_attribute("error.type", problem)
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        if self._token is not None:
            detach(self._token)
            self._token = None
            self._span.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.fail("cancelled" if issubclass(kind, asyncio.CancelledError) else kind.__name__)
        self.end()


def _correlation_at_hand() -> str | None:
    """Of what this task has resumed, as long as no span runs in it."""
    found = get_value(_CORRELATION)
    return found if isinstance(found, str) and not trace.get_current_span().get_span_context().is_valid else None


def _context_of(traceparent: str) -> SpanContext | None:
    """None for what is malformed, or names nothing."""
    found = _TRACEPARENT.fullmatch(traceparent)
    if found is None:
        return None
    context = SpanContext(
        int(found[1], 16), int(found[2], 16), is_remote=True, trace_flags=TraceFlags(int(found[3], 16))
    )
    return context if context.is_valid else None
