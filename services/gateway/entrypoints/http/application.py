"""The public API as an ASGI application: finds the operation, checks the caller, answers in one shape."""

import asyncio
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager, nullcontext
from time import time_ns
from typing import Any, Final

import structlog

from libs import tracing
from libs.contracts.errors import (
    InternalError,
    InvalidRequest,
    NotFound,
    PermissionDenied,
    ServiceError,
    ServiceUnavailable,
)
from libs.contracts.identifiers import new_id
from libs.persistence import is_outage
from libs.service_defaults.observed_requests import RequestMeasurement, end_span
from services.gateway.entrypoints.http.authentication import Authentication
from services.gateway.entrypoints.http.bodies import ClientGone, Receive, decode_body, read_body
from services.gateway.entrypoints.http.cross_origin import CrossOrigin, is_preflight
from services.gateway.entrypoints.http.errors import method_not_allowed
from services.gateway.entrypoints.http.event_streams import EventStreams
from services.gateway.entrypoints.http.exchange import AnswerBroken, Exchange, Send
from services.gateway.entrypoints.http.incoming import Incoming
from services.gateway.entrypoints.http.leaving import Leaving
from services.gateway.entrypoints.http.measurements import CLIENT_GONE, REFUSALS, WAITING
from services.gateway.entrypoints.http.messages import Passage, Reply, Request, correlation_from
from services.gateway.entrypoints.http.operations import Operation
from services.gateway.entrypoints.http.routing import Routes
from services.gateway.entrypoints.http.validation import required_object, validated

_log = structlog.get_logger("http")
PREFIX: Final = "/api/v1"
Page = Callable[[str], Reply | None]
"""A page that anybody may read, by its path below ``/api/v1``."""


class Application:
    def __init__(
        self,
        operations: Sequence[Operation],
        authentication: Authentication,
        cross_origin: CrossOrigin,
        streams: EventStreams,
        page: Page,
    ) -> None:
        self._routes = Routes(operations)
        self._authentication = authentication
        self._cross_origin = cross_origin
        self._streams = streams
        self._page = page
        self._busy: set[asyncio.Task[object]] = set()

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        measurement, began = RequestMeasurement("gateway", scope["method"]), time_ns()
        request = Request(
            method=scope["method"],
            path=scope["path"],
            raw_path=scope["raw_path"],
            headers=dict(scope["headers"]),
            query=scope["query_string"],
            correlation_id=new_id(),
        )
        exchange = Exchange(send, request)
        leaving = Leaving(receive)
        try:
            await self._serve(request, exchange, receive, leaving, began)
        except ClientGone:
            exchange.status = CLIENT_GONE
        except AnswerBroken as problem:
            # Without its last message the server closes the connection, which is all the caller can still be told.
            _log.warning("answer.broken", operation=request.operation, problem=str(problem.__cause__))
        except asyncio.CancelledError:
            if not leaving.gone:
                await exchange.fail(_STOPPING)
            exchange.status = CLIENT_GONE if leaving.gone else exchange.status
        except Exception as problem:
            told = _as_told(problem, request)
            REFUSALS.labels(told.kind.value).inc()
            await exchange.fail(told)
        measurement.end(request.route, exchange.status)
        if request.span is tracing.NOTHING:
            _trace(request, began)
        end_span(request.span, request.method, request.route, exchange.status)

    async def _serve(
        self, request: Request, exchange: Exchange, receive: Receive, leaving: Leaving, began: int
    ) -> None:
        request.correlation_id = correlation_from(request.headers.get(b"x-correlation-id"), request.correlation_id)
        structlog.contextvars.bind_contextvars(correlation_id=request.correlation_id)
        origin = request.headers.get(b"origin")
        if origin is not None:
            exchange.sharing = await self._cross_origin.headers(request, origin)
        path = request.path.removeprefix(PREFIX)
        match = self._routes.match(path)
        if match is None:
            await exchange.reply(self._other(path, request))
            return
        operation = match.operations.get(request.method)
        if operation is None and exchange.sharing and is_preflight(request):
            await exchange.reply(self._cross_origin.preflight(request, match.operations))
            return
        if operation is None:
            await exchange.reply(method_not_allowed(match.operations, request.recorded_correlation_id))
            return
        request.operation, request.route = operation.name, PREFIX + operation.path
        request.parameters = match.parameters
        await self._admit(request, operation)
        if operation.body is not None:
            await _take_body(request, operation, receive)
        # Only the body may say which correlation it belongs to, and with that which trace.
        _trace(request, began)
        if operation.uploads:
            request.incoming = Incoming(receive, request.headers)
        # Whoever passes on an upload reads the body, and so notices a caller who leaves.
        with nullcontext() if operation.uploads else leaving, self._being_answered():
            answer = await operation.handler(request)
            if isinstance(answer, Reply):
                await exchange.reply(answer)
            elif isinstance(answer, Passage):
                await exchange.pass_on(answer)
            else:
                await exchange.stream(answer, self._streams)

    async def drain(self, seconds: float) -> None:
        """Give requests under way that long to end by themselves, then tell their callers how to go on."""
        deadline = asyncio.get_running_loop().time() + seconds
        while self._busy and (left := deadline - asyncio.get_running_loop().time()) > 0:
            await asyncio.wait(self._busy, timeout=left)
        for task in self._busy:
            task.cancel()

    @contextmanager
    def _being_answered(self) -> Iterator[None]:
        task = asyncio.current_task()
        assert task is not None
        self._busy.add(task)
        WAITING.inc()
        try:
            yield
        finally:
            WAITING.dec()
            self._busy.discard(task)

    async def _admit(self, request: Request, operation: Operation) -> None:
        request.principal = await self._authentication.authenticate(request, operation)
        if operation.scope is not None and not request.principal.identity.allows(operation.scope):
            raise PermissionDenied(f"The credential lacks the scope {operation.scope}.")

    def _other(self, path: str, request: Request) -> Reply:
        page = self._page(path)
        if page is not None:
            return page if request.method == "GET" else method_not_allowed(["GET"], request.recorded_correlation_id)
        if not path.endswith("/") and (self._page(f"{path}/") or self._routes.match(f"{path}/")):
            # The raw path, not the decoded one: it becomes a header.
            query = b"?" + request.query if request.query else b""
            return Reply(308, headers=[(b"location", request.raw_path + b"/" + query)])
        raise NotFound("There is nothing at this path.")


async def _take_body(request: Request, operation: Operation, receive: Receive) -> None:
    assert operation.body is not None
    raw = await read_body(receive, request.headers)
    if not raw:
        if operation.body.required:
            raise InvalidRequest("The request needs a body.")
        raw, request.headers[b"content-type"] = b"{}", b"application/json"
    request.values = await decode_body(raw, request.headers.get(b"content-type", b""))
    if operation.body.model is not None:
        request.body = validated(operation.body.model, request.values)
    else:
        request.body = required_object(request.values)
    if isinstance(correlation_id := getattr(request.body, "correlation_id", None), str):
        request.correlation_id = correlation_id
        structlog.contextvars.bind_contextvars(correlation_id=correlation_id)


def _trace(request: Request, began: int) -> None:
    """A trace of our own: the caller's is linked, not continued, since one correlation is one trace here."""
    request.span = tracing.span(
        request.method,
        tracing.Kind.SERVER,
        {"aes.correlation_id": request.correlation_id, "aes.operation": request.operation},
        correlation_id=request.correlation_id,
        link=request.traceparent,
        began=began,
    )


_STOPPING: Final = ServiceUnavailable(
    "The service is being restarted. The request may still be carried out; repeating it with the same"
    " Idempotency-Key is safe.",
    retry_after=2,
)


def _as_told(problem: Exception, request: Request) -> ServiceError:
    if isinstance(problem, ServiceError):
        return problem
    if is_outage(problem):
        _log.warning("database.unreachable", operation=request.operation, problem=str(problem).strip())
        return ServiceUnavailable("The gateway's database cannot be reached.", retry_after=2)
    _log.error("request.failed", operation=request.operation, exc_info=problem)
    return InternalError("Something went wrong on our side.")
