"""Converts all errors to HTTP responses in one format."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.contracts.error_catalogue import ERRORS
from libs.contracts.errors import ErrorInfo, ErrorKind, ServiceError, validation_details
from libs.persistence import is_outage
from libs.tracing import current_correlation_id

_log = structlog.get_logger("http")

STATUSES: Final = {kind: entry.status for kind, entry in ERRORS.items()}
_KINDS: Final = {status: kind for kind, status in STATUSES.items()}
# Messages that replace the framework's status names.
_SENTENCES: Final = {404: "There is nothing at this path.", 405: "This path doesn't accept this method."}
RETRIED: Final = (ErrorKind.RATE_LIMIT, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT)
"""The types of errors that have a Retry-After header."""
CHALLENGES: Final = 'ApiKey realm="agent-execution-service", Bearer realm="agent-execution-service"'
"""RFC 9110 requires a 401 to list schemes. ``ApiKey`` is a common name, although it isn't a registered scheme."""
_DEFAULT_RETRY_SECONDS: Final = 2


def error_response(info: ErrorInfo, *, body: bytes | None = None, status: int | None = None) -> Response:
    """Returns the HTTP response for an error. ``body`` and ``status`` override the defaults."""
    headers = {}
    if info.type in RETRIED:
        headers["Retry-After"] = str(info.retry_after or _DEFAULT_RETRY_SECONDS)
    elif info.type is ErrorKind.BUDGET and info.retry_after is not None:
        headers["Retry-After"] = str(info.retry_after)
    if info.type is ErrorKind.AUTHENTICATION:
        headers["WWW-Authenticate"] = CHALLENGES
    # The line break is for terminals.
    content = (error_body(info) if body is None else body) + b"\n"
    return Response(content, status or STATUSES[info.type], headers, media_type="application/json")


def error_body(info: ErrorInfo) -> bytes:
    """Returns ``{"error": {...}}``. The correlation ID defaults to that of the request."""
    body = info.model_copy(update={"correlation_id": info.correlation_id or current_correlation_id()})
    unused = {name for name in ("details", "correlation_id") if getattr(body, name) is None}
    return b'{"error":' + body.model_dump_json(exclude={"retry_after", *unused}).encode() + b"}"


def install_error_handlers(app: FastAPI) -> None:
    """Makes an application return every error in the standard format."""
    handlers: dict[Any, Callable[[Request, Any], Awaitable[Response]]] = {
        ServiceError: _service_error,
        RequestValidationError: _request_invalid,
        HTTPException: _http_exception,
    }
    for error, handler in handlers.items():
        app.add_exception_handler(error, handler)
    app.add_middleware(_Unexpected)


async def _service_error(_request: Request, problem: ServiceError) -> Response:
    return error_response(problem.info())


async def _request_invalid(_request: Request, problem: RequestValidationError) -> Response:
    details = validation_details(problem.errors())
    return error_response(ErrorInfo(type=ErrorKind.VALIDATION, message="Invalid request.", details=details))


async def _http_exception(_request: Request, problem: HTTPException) -> Response:
    kind = _KINDS.get(problem.status_code, ErrorKind.INVALID_REQUEST)
    message = _SENTENCES.get(problem.status_code, str(problem.detail))
    response = error_response(ErrorInfo(type=kind, message=message))
    response.headers.update(problem.headers or {})
    return response


class _Unexpected:
    """Responds to unexpected exceptions. An ``Exception`` handler would run outside all other middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = False

        async def watched(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as problem:
            if started:
                raise
            await _unexpected(scope, problem)(scope, receive, send)


def _unexpected(scope: Scope, problem: Exception) -> Response:
    if is_outage(problem):
        _log.warning("request.store_unavailable", path=scope["path"], problem=repr(problem))
        return error_response(
            ErrorInfo(
                type=ErrorKind.UNAVAILABLE,
                message="The service can't reach its database or another service. Try again later.",
            )
        )
    _log.error("request.failed", method=scope["method"], path=scope["path"], exc_info=problem)
    return error_response(ErrorInfo(type=ErrorKind.INTERNAL, message="Internal error."))
