"""Binds the correlation id of a request to logs and to its answer."""

import structlog
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.identifiers import is_correlation_id, new_id
from libs.service_defaults.correlation import HEADER, bind_correlation_id, current_correlation_id
from libs.service_defaults.errors import error_response

_RAW_HEADER = HEADER.lower().encode()


class CorrelationMiddleware:
    """Takes ``X-Correlation-ID`` or makes one, binds it to the logs and answers with it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == _RAW_HEADER), None)
        acceptable = given is None or is_correlation_id(given.decode("latin-1"))
        correlation_id = given.decode("latin-1") if given is not None and acceptable else new_id()
        structlog.contextvars.clear_contextvars()
        bind_correlation_id(correlation_id)

        async def send_with_header(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = current_correlation_id() or correlation_id
            await send(message)

        if not acceptable:
            await self._refuse(scope, receive, send_with_header)
            return
        await self._app(scope, receive, send_with_header)

    @staticmethod
    async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
        info = ErrorInfo(
            type=ErrorKind.INVALID_REQUEST, message=f"{HEADER} must be 1 to 128 characters of A-Za-z0-9._:-"
        )
        await error_response(info)(scope, receive, send)
