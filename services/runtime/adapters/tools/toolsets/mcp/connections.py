"""Manages connections to MCP servers. All calls to one version of a toolset share a connection."""

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import httpx2
import structlog
from mcp import Client
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp.types import Implementation

from services.runtime.adapters.tools.toolsets.mcp.transport import GuardedTransport
from services.runtime.domain.tools import ToolFailed

_CONNECT_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 3.0
_log: Final = structlog.get_logger(__name__)


class McpConnection:
    """A connection to an MCP server. It has its own task, because the SDK's scopes are bound to a task."""

    def __init__(self, url: str, transport: GuardedTransport) -> None:
        self.used = False
        # Set after a failed call: running calls go on, and new ones use another connection.
        self.retired = False
        self._url = url
        self._transport = transport
        self._closing = asyncio.Event()
        self._opened: asyncio.Future[ClientSession] = asyncio.get_running_loop().create_future()
        self._owner = asyncio.create_task(self._own(), name="mcp-connection")

    @property
    def alive(self) -> bool:
        return not (self.retired or self._owner.done() or self._closing.is_set())

    async def session(self) -> ClientSession:
        """Returns the session once the connection is negotiated. Raises MCPError if that fails."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        self._closing.set()
        _, late = await asyncio.wait({self._owner}, timeout=_CLOSE_SECONDS)
        for task in late:
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)

    async def _own(self) -> None:
        http = httpx2.AsyncClient(transport=self._transport, timeout=None, trust_env=False)
        # The transport limits responses.
        streams = streamable_http_client(self._url, http_client=http, max_sse_event_size=None)
        # The SDK's cache of tool lists would still be used after the server restarts with other tools.
        client = Client(streams, cache=None, client_info=Implementation(name="aes", version="1"))
        try:
            async with http, asyncio.timeout(_CONNECT_SECONDS) as limit, client:
                limit.reschedule(None)
                self._opened.set_result(client.session)
                await self._closing.wait()
        except Exception as problem:
            self._fail(problem)
        finally:
            if not self._opened.done():
                self._opened.cancel()

    def _fail(self, problem: Exception) -> None:
        if self._opened.done():
            _log.info("mcp.connection_lost", problem=type(problem).__name__)
            return
        while isinstance(problem, ExceptionGroup):
            problem = problem.exceptions[0]
        if isinstance(problem, TimeoutError):
            problem = MCPError(0, f"the server didn't open a session within {_CONNECT_SECONDS:g} seconds")
        elif not isinstance(problem, MCPError):
            problem = MCPError(0, "the server doesn't support MCP")
        self._opened.set_exception(problem)
        # Mark the exception as retrieved, in case no caller is waiting for it.
        self._opened.exception()


@dataclass(slots=True)
class _Entry:
    connection: McpConnection
    users: int = 0
    idle: asyncio.TimerHandle | None = field(default=None, repr=False)


class McpConnections:
    """A pool of up to `most` connections. A connection is closed after `idle_seconds` without use."""

    def __init__(self, *, most: int = 200, idle_seconds: float = 60.0) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._entries: dict[Hashable, _Entry] = {}
        self._closings: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @asynccontextmanager
    async def use(self, key: Hashable, connect: Callable[[], McpConnection]) -> AsyncIterator[McpConnection]:
        """Yields the connection for `key`, created if necessary. Raises ToolFailed if all connections are in use."""
        entry = self._entry(key, connect)
        entry.users += 1
        try:
            yield entry.connection
        finally:
            entry.users -= 1
            if entry.users == 0:
                self._release(key, entry)

    async def close(self) -> None:
        for key, entry in list(self._entries.items()):
            self._drop(key, entry)
        await asyncio.gather(*self._closings, return_exceptions=True)

    def _entry(self, key: Hashable, connect: Callable[[], McpConnection]) -> _Entry:
        entry = self._entries.pop(key, None)
        if entry is not None and entry.idle is not None:
            entry.idle.cancel()
        if entry is None or not entry.connection.alive:
            self._make_room()
            entry = _Entry(connect())
        # Move it to the end, so that the first entries are the least recently used.
        self._entries[key] = entry
        return entry

    def _make_room(self) -> None:
        if len(self._entries) < self._most:
            return
        idle = next(((key, entry) for key, entry in self._entries.items() if entry.users == 0), None)
        if idle is None:
            raise ToolFailed("too many MCP servers are in use; try again in a moment", retry=True)
        self._drop(*idle)

    def _release(self, key: Hashable, entry: _Entry) -> None:
        if self._entries.get(key) is entry and entry.connection.alive:
            loop = asyncio.get_running_loop()
            entry.idle = loop.call_later(self._idle_seconds, self._drop, key, entry)
        else:
            self._drop(key, entry)

    def _drop(self, key: Hashable, entry: _Entry) -> None:
        if entry.idle is not None:
            entry.idle.cancel()
        if self._entries.get(key) is entry:
            del self._entries[key]
        closing = asyncio.create_task(entry.connection.close())
        self._closings.add(closing)
        closing.add_done_callback(self._closings.discard)
