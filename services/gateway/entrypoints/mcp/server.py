"""Handles requests for the MCP SDK. This module is imported on the first request."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    CancelledNotificationParams,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
)
from starlette.types import Receive, Scope, Send

from services.gateway.entrypoints.door.application import Door
from services.gateway.entrypoints.door.errors import as_service_error
from services.gateway.entrypoints.mcp.application import ON_OUR_SIDE
from services.gateway.entrypoints.mcp.asking import Asking
from services.gateway.entrypoints.mcp.calls import Call, Caller
from services.gateway.entrypoints.mcp.reading import Reading
from services.gateway.entrypoints.mcp.resources import TEMPLATES, Resources
from services.gateway.entrypoints.mcp.tools import Tools

CALLER: Final = "aes.caller"
"""The key of the caller in a request's ASGI scope."""
_INSTRUCTIONS: Final = (
    "Agents and documents that you can use. Ask an agent with ask_agent or with its own tool. Search documents"
    " with search_knowledge. Continue a conversation with the session_id of its results."
)
Context = ServerRequestContext[Any, Any]


class McpServer:
    """Serves each request independently, so that any replica can serve the next request."""

    def __init__(self, door: Door) -> None:
        # At level INFO, the SDK logs every request.
        logging.getLogger("mcp").setLevel(logging.WARNING)
        reading = Reading(door)
        self._asking = Asking(door)
        self._tools = Tools(reading, self._asking)
        self._resources = Resources(door, reading)
        self._server: Server[Any] = Server(
            "agent-execution-service",
            version="1.0.0",
            title="Agent execution service",
            instructions=_INSTRUCTIONS,
            # The SDK needs schemas only for arguments in headers, which no tool has. By default, it lists the tools
            # before each call.
            get_tool_input_schema=lambda _: None,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self._server.add_notification_handler("notifications/cancelled", CancelledNotificationParams, self._cancelled)
        self._manager = StreamableHTTPSessionManager(self._server, stateless=True)
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Starts the SDK's server, which runs until the process ends."""
        ready = asyncio.Event()
        self._running = asyncio.create_task(self._run(ready), name="mcp.server")
        await ready.wait()

    async def handle(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        await self._manager.handle_request({**scope, CALLER: caller}, receive, send)

    async def _run(self, ready: asyncio.Event) -> None:
        async with self._manager.run():
            ready.set()
            await asyncio.get_running_loop().create_future()

    async def _list_tools(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        with _refusals():
            return ListToolsResult(tools=await self._tools.listed(_caller(context).principal))

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        result = await self._tools.call(_call(context), params.name, params.arguments or {})
        if result is None:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name[:200]}")
        return result

    async def _list_resources(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        cursor = None if params is None else params.cursor
        with _refusals():
            found, following = await self._resources.listed(_caller(context).principal, cursor)
        return ListResourcesResult(resources=found, next_cursor=following)

    async def _list_templates(self, _: Context, __: PaginatedRequestParams | None) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=list(TEMPLATES))

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with _refusals(uri=str(params.uri)):
            contents = await self._resources.read(_caller(context).principal, str(params.uri))
        return ReadResourceResult(contents=[contents])

    async def _cancelled(self, context: Context, params: CancelledNotificationParams) -> None:
        """Cancels the turn that a request started, on any replica. Requires a connection ID."""
        caller = _caller(context)
        if (request := caller.named(params.request_id)) is not None:
            # Runs in a separate task, because the SDK closes the notification's transport immediately.
            self._asking.cancel(caller.write, request)


def _caller(context: Context) -> Caller:
    assert context.request is not None
    caller: Caller = context.request.scope[CALLER]
    return caller


def _call(context: Context) -> Call:
    meta: dict[str, Any] = dict(context.meta or {})
    key, done = meta.get("Idempotency-Key"), 0

    async def tell(message: str) -> None:
        nonlocal done
        done += 1
        await context.session.report_progress(done, message=message)

    return Call(
        caller=_caller(context),
        tell=tell,
        is_followed=meta.get("progress_token", meta.get("progressToken")) is not None,
        request_id=context.request_id,
        key=key if isinstance(key, str) else None,
    )


@contextmanager
def _refusals(**about: str) -> Iterator[None]:
    """Converts exceptions into errors of the protocol."""
    try:
        yield
    except Exception as problem:
        error = as_service_error(problem)
        code = INTERNAL_ERROR if error.kind in ON_OUR_SIDE else INVALID_PARAMS
        raise MCPError(code, error.message, {"type": error.kind.value, **about}) from None
