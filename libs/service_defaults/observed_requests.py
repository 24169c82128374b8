"""Gives every HTTP request a correlation ID, and records metrics and traces by route template."""

from functools import cache
from time import perf_counter, time_ns
from typing import Final

import structlog
from fastapi.telemetry import TelemetryConfig
from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs import tracing
from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.identifiers import is_correlation_id, new_id
from libs.service_defaults.errors import error_response
from libs.tracing import bind_correlation_id, current_correlation_id

HEADER: Final = "X-Correlation-ID"
SILENT: Final[TelemetryConfig] = {"tracing": False, "metrics": False, "logs": False}
"""Turns off FastAPI's own metrics, traces and logs, which would duplicate the ones recorded here."""
_REQUESTS: Final = Counter(
    "aes_http_requests_total",
    "HTTP requests, by status class.",
    ["service", "method", "route", "status"],
)
_SECONDS: Final = Histogram(
    "aes_http_request_duration_seconds",
    "Time from receiving a request's headers to the end of its response or stream.",
    ["service", "method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
_RAW_HEADER: Final = HEADER.lower().encode()
_CLIENT_CLOSED: Final = 499
"""The status of requests whose caller disconnected first, as in nginx."""
_SPAN: Final = "aes.span"
_BEGAN: Final = "aes.began"
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_UNOBSERVED: Final = ("/health/", "/metrics")


class ObservedRequests:
    """Middleware that assigns a correlation ID to each request, and measures and traces requests.

    The ID is taken from ``X-Correlation-ID`` or created. Health probes and Prometheus scrapes aren't measured. With
    ``public``, ``begin_span`` starts a span that is linked to the caller's trace instead of continuing it.
    """

    def __init__(self, app: ASGIApp, service: str, *, public: bool = False) -> None:
        self._app = app
        self._service = service
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = _header(scope, _RAW_HEADER)
        app = self._app if given is None or is_correlation_id(given) else _refuse
        correlation_id = given if given is not None and app is not _refuse else new_id()
        structlog.contextvars.clear_contextvars()
        bind_correlation_id(correlation_id)
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                final = current_correlation_id() or correlation_id
                message["headers"] = [*message["headers"], (_RAW_HEADER, final.encode("latin-1"))]
            await send(message)

        if scope["path"].startswith(_UNOBSERVED):
            await app(scope, receive, watched)
            return
        began, scope[_BEGAN] = perf_counter(), time_ns()
        if not self._public:
            scope[_SPAN] = tracing.span(
                scope["method"],
                tracing.Kind.SERVER,
                correlation_id=correlation_id,
                parent=_header(scope, b"traceparent"),
            )
        try:
            await app(scope, receive, watched)
        except ClientDisconnect:
            status = _CLIENT_CLOSED
        finally:
            route = _route(scope)
            method = scope["method"] if scope["method"] in _METHODS else "other"
            count, seconds = _series(self._service, method, route, status // 100)
            count.inc()
            seconds.observe(perf_counter() - began)
            _end_span(scope, route, status)


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    info = ErrorInfo(
        type=ErrorKind.INVALID_REQUEST, message=f"{HEADER} must have 1 to 128 characters of `A-Za-z0-9._:-`."
    )
    await error_response(info)(scope, receive, send)


@cache
def _series(service: str, method: str, route: str, status_class: int) -> tuple[Counter, Histogram]:
    """Returns the metrics of a route, given as a template such as ``/sessions/{session_id}/`` and never as a path.

    Status class 0 means that there was no response.
    """
    status = f"{status_class}xx" if status_class else "none"
    return _REQUESTS.labels(service, method, route, status), _SECONDS.labels(service, method, route)


def begin_span(scope: Scope) -> None:
    """Starts the span of a public request once its correlation ID is final, since the trace ID is derived from it."""
    if not tracing.is_on():
        return
    correlation_id = current_correlation_id()
    scope[_SPAN] = tracing.span(
        scope["method"],
        tracing.Kind.SERVER,
        {"aes.correlation_id": correlation_id, "aes.operation": getattr(scope.get("route"), "name", "none")},
        correlation_id=correlation_id,
        link=_header(scope, b"traceparent"),
        began=scope.get(_BEGAN),
    )


def _end_span(scope: Scope, route: str, status: int) -> None:
    """Ends a request's span. The path and query aren't recorded, since they may contain private names."""
    if not tracing.is_on():
        return
    if _SPAN not in scope:
        begin_span(scope)
    span: tracing.Span = scope[_SPAN]
    span.update_name(f"{scope['method']} {route}")
    span.set("http.request.method", scope["method"])
    span.set("http.route", route)
    span.set("http.response.status_code", status)
    if status >= 500 or status == 0:
        span.fail(str(status))
    span.end()


def _header(scope: Scope, wanted: bytes) -> str | None:
    for name, value in scope["headers"]:
        if name == wanted:
            text: str = value.decode("latin-1")
            return text
    return None


def _route(scope: Scope) -> str:
    route = scope.get("route")
    return getattr(route, "path_format", None) or getattr(route, "path", None) or "none"
