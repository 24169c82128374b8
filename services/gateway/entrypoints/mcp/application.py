"""Serves ``/mcp``: agents, knowledge bases and conversations for MCP clients, over streamable HTTP."""

import asyncio
from collections.abc import Collection
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Final

import orjson
from fastapi import Request, Security
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from libs.contracts.errors import ErrorInfo, ErrorKind, InvalidRequest, PermissionDenied
from libs.contracts.identifiers import new_id
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.application import Door, ProtocolApplication, protocol_router
from services.gateway.entrypoints.door.bodies import read_body
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.errors import ErrorShape
from services.gateway.entrypoints.door.json_text import check_values
from services.gateway.entrypoints.door.streams import EventStreams, render_event
from services.gateway.entrypoints.door.writes import PlainWrite
from services.gateway.entrypoints.mcp.calls import Caller, RequestId

if TYPE_CHECKING:
    from services.gateway.entrypoints.mcp.server import McpServer

PREFIX: Final = "/mcp"
_CONNECTION: Final = "mcp-session-id"
_VERSION: Final = "mcp-protocol-version"
_LONGEST_CONNECTION: Final = 200
_INVALID: Final = -32600
_FAILED: Final = -32603
ON_OUR_SIDE: Final = (ErrorKind.INTERNAL, ErrorKind.UNAVAILABLE, ErrorKind.TIMEOUT)
_request_id: ContextVar[RequestId | None] = ContextVar("mcp_request_id", default=None)
router: Final = protocol_router(PREFIX)


def _body(info: ErrorInfo) -> bytes:
    """Renders a JSON-RPC error, with the request's ID if it's known."""
    data = info.model_dump(mode="json", exclude={"message", "retry_after"}, exclude_none=True)
    code = _FAILED if info.type in ON_OUR_SIDE else _INVALID
    error = {"code": code, "message": info.message, "data": data}
    return orjson.dumps({"jsonrpc": "2.0", "id": _request_id.get(), "error": error})


def _event(info: ErrorInfo) -> bytes:
    return render_event("message", _body(info))


SHAPE: Final = ErrorShape(_body, _event)


class LazyServer:
    """Creates the server on the first request, because importing the SDK takes a second and 18 MB of memory."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._starting = asyncio.Lock()
        self._server: McpServer | None = None

    async def get(self) -> "McpServer":
        async with self._starting:
            if self._server is None:
                module = await asyncio.to_thread(import_module, "services.gateway.entrypoints.mcp.server")
                server: McpServer = module.McpServer(self._door)
                await server.start()
                self._server = server
            return self._server


class McpApplication(ProtocolApplication):
    def __init__(self, door: Door) -> None:
        super().__init__(door, PREFIX, [router], SHAPE)
        self.state.server = LazyServer(door)
        self.state.origins = door.shared_origins


@router.post("")
async def exchange(request: Request, caller: Annotated[Principal, Security(by_api_key)], write: PlainWrite) -> Response:
    _check_origin(request.headers.get("origin"), request.app.state.origins)
    body = await read_body(request.receive, request.headers)
    _check_body(body)
    connection = request.headers.get(_CONNECTION)
    if connection is not None and not 0 < len(connection) <= _LONGEST_CONNECTION:
        raise InvalidRequest(f"The {_CONNECTION} header must have 1 to {_LONGEST_CONNECTION} characters.")
    begins = connection is None and _VERSION not in request.headers
    known = Caller(caller, write, connection)
    server: LazyServer = request.app.state.server
    streams: EventStreams = request.app.state.door.streams
    return McpResponse(await server.get(), known, streams, body, begins=begins)


def _check_origin(origin: str | None, allowed: Collection[str]) -> None:
    """Raises ``PermissionDenied`` for a web page on an origin that isn't allowed. This prevents DNS rebinding."""
    if origin is not None and origin not in allowed:
        raise PermissionDenied("This origin isn't allowed to use MCP. Ask an operator to allow the origin.")


def _check_body(body: bytes) -> None:
    """Stores the request's ID for error responses. Raises an error if the body contains values that can't be stored."""
    try:
        message: Any = orjson.loads(body)
    except orjson.JSONDecodeError:
        return
    found = message.get("id") if isinstance(message, dict) else None
    _request_id.set(found if isinstance(found, str | int) else None)
    check_values(message)


class McpResponse(Response):
    """The SDK's response to a request. It ends when the caller's credential expires or is revoked.

    ``begins``: whether to add a connection ID, which older protocol versions need to cancel a request.
    """

    def __init__(
        self, server: "McpServer", caller: Caller, streams: EventStreams, body: bytes, *, begins: bool
    ) -> None:
        super().__init__()
        self._server = server
        self._caller = caller
        self._streams = streams
        self._message: Message | None = {"type": "http.request", "body": body, "more_body": False}
        self._begins = begins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def receive_read() -> Message:
            if (read := self._message) is not None:
                self._message = None
                return read
            message = await receive()
            self._caller.has_left = self._caller.has_left or message["type"] == "http.disconnect"
            return message

        async def send_named(message: Message) -> None:
            if self._begins and message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (_CONNECTION.encode(), new_id().encode())]
            await send(message)

        principal = self._caller.principal
        async with self._streams.hold_slot(principal), self._streams.opened(principal):
            await self._server.handle(self._caller, scope, receive_read, send_named)
