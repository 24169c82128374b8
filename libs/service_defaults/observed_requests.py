"""Every HTTP request is counted, timed and traced, by the template of its route."""

from functools import cache
from time import perf_counter, time_ns
from typing import Final

from prometheus_client import Counter, Histogram
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs import tracing
from libs.service_defaults.correlation import current_correlation_id

_REQUESTS: Final = Counter(
    "aes_http_requests_total",
    "Requests answered, by the class of the status.",
    ["service", "method", "route", "status"],
)
_SECONDS: Final = Histogram(
    "aes_http_request_duration_seconds",
    "From a request's head to the end of its answer, or of its stream.",
    ["service", "method", "route"],
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120),
)
NO_ROUTE: Final = "none"
CLIENT_CLOSED: Final = 499
"""The status of requests whose caller closed the connection first, as nginx counts them."""
_SPAN: Final = "aes.span"
_BEGAN: Final = "aes.began"
_METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})
_UNOBSERVED: Final = ("/health/", "/metrics")


class RequestMeasurement:
    """One request, from its construction to ``end``."""

    def __init__(self, service: str, method: str) -> None:
        self._service = service
        self._method = method if method in _METHODS else "other"
        self._began = perf_counter()

    def end(self, route: str, status: int) -> None:
        """``route`` is a template such as ``/sessions/{session_id}/``, never a path. 0: not answered at all."""
        count, seconds = _series(self._service, self._method, route, status // 100)
        count.inc()
        seconds.observe(perf_counter() - self._began)


@cache
def _series(service: str, method: str, route: str, status_class: int) -> tuple[Counter, Histogram]:
    status = f"{status_class}xx" if status_class else "none"
    return _REQUESTS.labels(service, method, route, status), _SECONDS.labels(service, method, route)


class ObservedRequests:
    """Middleware that measures and traces requests. Probes and Prometheus itself are left out.

    ``public``: the caller's trace is linked, not continued, and the span begins with ``begin_span``.
    """

    def __init__(self, app: ASGIApp, service: str, *, public: bool = False) -> None:
        self._app = app
        self._service = service
        self._public = public

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"].startswith(_UNOBSERVED):
            await self._app(scope, receive, send)
            return
        measurement = RequestMeasurement(self._service, scope["method"])
        scope[_BEGAN] = time_ns()
        if not self._public:
            correlation_id = current_correlation_id()
            scope[_SPAN] = tracing.span(
                scope["method"], tracing.Kind.SERVER, correlation_id=correlation_id, parent=_traceparent(scope)
            )
        status = 0

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except ClientDisconnect:
            status = CLIENT_CLOSED
        finally:
            route = _route(scope)
            measurement.end(route, status)
            if _SPAN not in scope:
                begin_span(scope)
            end_span(scope[_SPAN], scope["method"], route, status)


def begin_span(scope: Scope) -> None:
    """Begin the span of a public request, once its correlation id is final: the trace id follows from that."""
    correlation_id = current_correlation_id()
    scope[_SPAN] = tracing.span(
        scope["method"],
        tracing.Kind.SERVER,
        {"aes.correlation_id": correlation_id, "aes.operation": getattr(scope.get("route"), "name", "none")},
        correlation_id=correlation_id,
        link=_traceparent(scope),
        began=scope.get(_BEGAN),
    )


def end_span(span: tracing.Span, method: str, route: str, status: int) -> None:
    """Ends the span of a request. Its path and query are left out, since they may hold private names."""
    if span is tracing.NOTHING:
        return
    span.update_name(f"{method} {route}")
    span.set("http.request.method", method)
    span.set("http.route", route)
    span.set("http.response.status_code", status)
    if status >= 500 or status == 0:
        span.fail(str(status))
    span.end()


def _traceparent(scope: Scope) -> str | None:
    found = next((value for name, value in scope["headers"] if name == b"traceparent"), None)
    return None if found is None else found.decode("latin-1")


def _route(scope: Scope) -> str:
    route = scope.get("route")
    return getattr(route, "path_format", None) or getattr(route, "path", None) or NO_ROUTE
