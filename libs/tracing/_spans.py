"""The way in: what is switched off costs a look at one variable."""

import os
from collections.abc import Mapping
from enum import StrEnum
from types import TracebackType
from typing import Final, Protocol, Self

Value = str | int | float | bool
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")


class Kind(StrEnum):
    INTERNAL = "internal"
    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Span(Protocol):
    """A piece of work, from its creation to ``end``, or to the end of a ``with`` block that it is used in.

    Spans made meanwhile in the same task, and in tasks begun there, are parts of it.
    """

    def set(self, key: str, value: Value | None) -> None:
        """Note an attribute: ids, names and numbers, never contents. ``None`` is left out."""

    def rename(self, name: str) -> None: ...

    def fail(self, problem: str) -> None:
        """It went wrong; ``problem`` is the kind of error, not its message, which may quote contents."""

    def end(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        """An exception that passes through is noted by its type."""


class Tracer(Protocol):
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
    ) -> Span: ...

    def resume(self, parent: str | None, correlation_id: str) -> None: ...

    def traceparent(self) -> str | None: ...

    def span_id(self) -> str | None: ...

    def stop(self) -> None: ...


class _Nothing:
    def set(self, key: str, value: Value | None) -> None: ...

    def rename(self, name: str) -> None: ...

    def fail(self, problem: str) -> None: ...

    def end(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...


NOTHING: Final[Span] = _Nothing()
_tracer: Tracer | None = None


def start(service: str, environ: Mapping[str, str] = os.environ) -> bool:
    """Trace from now on if the standard variables name a place to send spans to; returns whether they do."""
    global _tracer
    wanted = any(environ.get(name) for name in _ENDPOINTS) and environ.get("OTEL_TRACES_EXPORTER") != "none"
    if not wanted or environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    # Not before: the SDK takes a quarter of a second to import, and memory.
    from libs.tracing._otel import OtelTracer

    _tracer = OtelTracer(service, environ)
    return True


def stop() -> None:
    """Send what is left and trace no more. Blocks for up to two seconds when nobody takes it."""
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
    """Begin a span, below ``parent`` (a ``traceparent``) or what runs here.

    With a ``correlation_id`` it is in the trace of that: a parent of another trace is linked, not continued.
    ``link`` is only ever linked. ``began``: nanoseconds since 1970, when it began earlier.
    """
    if _tracer is None:
        return NOTHING
    return _tracer.span(name, kind, attributes, correlation_id=correlation_id, parent=parent, link=link, began=began)


def resume(parent: str | None, correlation_id: str) -> None:
    """Spans made in this task from here on go below ``parent``, in the trace of the correlation."""
    if _tracer is not None:
        _tracer.resume(parent, correlation_id)


def current_traceparent() -> str | None:
    """The W3C header that names the span at hand; none while tracing is off."""
    return None if _tracer is None else _tracer.traceparent()


def span_id() -> str | None:
    """The id of the span at hand, for logs."""
    return None if _tracer is None else _tracer.span_id()
