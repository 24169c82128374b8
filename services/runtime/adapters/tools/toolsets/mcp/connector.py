"""Toolsets of type `mcp`: the tools of an MCP server over streamable HTTP."""

import logging
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from mcp.client.session import ClientSession
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    UNSUPPORTED_PROTOCOL_VERSION,
    CallToolRequest,
    CallToolRequestParams,
    CallToolResult,
    InputRequiredResult,
    PaginatedRequestParams,
)
from mcp.types import Tool as McpToolDescription
from pydantic import TypeAdapter, ValidationError

from libs.contracts.api.toolsets import MAX_TOOLS, ConnectedTool
from libs.json_schema import SchemaInvalid, compile_schema
from libs.outbound import GuardedResolver
from services.runtime.adapters.tools.toolsets.mcp.connections import McpConnection, McpConnections
from services.runtime.adapters.tools.toolsets.mcp.content import tool_output
from services.runtime.adapters.tools.toolsets.mcp.transport import TOO_LARGE, Failure, GuardedTransport
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import Tool, ToolContext, ToolDefinition, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable

_MOST_PAGES: Final = 50
_LONGEST_NAME: Final = 150
_LONGEST_DESCRIPTION: Final = 4_000
_MAY_PASS: Final = frozenset({Failure.UNREACHABLE, Failure.BROKEN, Failure.PASSING_STATUS})

_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(CallToolResult | InputRequiredResult)


@dataclass(frozen=True, slots=True)
class Mcp:
    """The parts that the tools of all MCP toolsets share."""

    resolver: GuardedResolver
    secrets: ToolsetSecrets
    connections: McpConnections
    artifacts: SessionArtifacts | None

    def connect(self, toolset: Toolset) -> McpConnection:
        headers = partial(self.secrets.headers, toolset, toolset.config.get("headers") or {})
        transport = GuardedTransport(self.resolver, headers)
        return McpConnection(toolset.config["url"], transport)


class McpConnector:
    """A ToolsetConnector."""

    def __init__(
        self,
        resolver: GuardedResolver,
        secrets: ToolsetSecrets,
        artifacts: SessionArtifacts | None = None,
        connections: McpConnections | None = None,
    ) -> None:
        # The SDK logs what servers send, which may echo secrets.
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
        self._mcp = Mcp(resolver, secrets, McpConnections() if connections is None else connections, artifacts)

    async def discover(self, toolset: Toolset, /) -> list[ConnectedTool]:
        # A connection of its own: what is known of the server so far may be the reason for asking.
        connection = self._mcp.connect(toolset)
        try:
            listed = await _list_tools(await connection.session())
        except MCPError as problem:
            raise ToolsetUnusable.at(
                "url", f"The MCP server does not list its tools: {problem.message[:500]}"
            ) from None
        except ValidationError:
            raise ToolsetUnusable("The MCP server's list of tools is not what the protocol asks for.") from None
        except ToolFailed as problem:
            raise ToolsetUnusable.at("url", str(problem)) from None
        finally:
            await connection.close()
        return _chosen(listed, toolset.config.get("allowed_tools"))

    def tools(self, toolset: Toolset, /) -> Sequence[Tool]:
        return [McpTool(self._mcp, toolset, tool) for tool in toolset.tools]

    async def close(self) -> None:
        await self._mcp.connections.close()


class McpTool:
    def __init__(self, mcp: Mcp, toolset: Toolset, tool: ConnectedTool) -> None:
        self._mcp = mcp
        self._toolset = toolset
        self._tool = tool

    @property
    def definition(self) -> ToolDefinition:
        return self._toolset.definition(self._tool)

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        connect = partial(self._mcp.connect, self._toolset)
        for again in (True, False):
            async with self._mcp.connections.use(_key(self._toolset), connect) as connection:
                known, connection.used = connection.used, True
                try:
                    result = await self._send(await connection.session(), arguments, context)
                    break
                except MCPError as problem:
                    self._mcp.connections.retire(connection)
                    if not (again and known and _did_nothing(problem)):
                        raise _failure(problem) from None
                except ValidationError:
                    raise ToolFailed("the server's answer is not what the protocol asks for") from None
                except BaseException:
                    # A server that did not answer in time is asked over another connection the next time.
                    self._mcp.connections.retire(connection)
                    raise
        if isinstance(result, InputRequiredResult):
            raise ToolFailed("the server asks its caller for input, which nobody here can give")
        return await tool_output(result, self._tool.name, self._mcp.artifacts, context)

    async def _send(
        self, session: ClientSession, arguments: JsonObject, context: ToolContext
    ) -> CallToolResult | InputRequiredResult:
        """The result of one call. The SDK's own `call_tool` would list tools after it, and fail when that fails."""
        params = CallToolRequestParams(
            name=self._tool.name, arguments=arguments, _meta={"Idempotency-Key": context.idempotency_key}
        )
        request = CallToolRequest(params=params)
        try:
            return await session.send_request(request, _RESULT)
        except MCPError as problem:
            if problem.code != HEADER_MISMATCH:
                raise
        # The server did nothing yet: it wants arguments in headers too, which its list of tools names.
        await _list_tools(session)
        return await session.send_request(request, _RESULT)


def _key(toolset: Toolset) -> Hashable:
    """The key of a connection; a secret that was set anew has another ciphertext, and so another connection."""
    return toolset.company_id, toolset.name, toolset.version, frozenset(toolset.secrets.items())


def _did_nothing(problem: MCPError) -> bool:
    """Whether the server refused the request before it looked at the call, as one that was restarted does."""
    return problem.code in (Failure.SESSION_GONE, UNSUPPORTED_PROTOCOL_VERSION)


def _failure(problem: MCPError) -> ToolFailed:
    if problem.code == CONNECTION_CLOSED and TOO_LARGE in problem.message:
        return ToolFailed(TOO_LARGE)
    if problem.code == CONNECTION_CLOSED:
        return ToolFailed("the connection ended before the answer", retry=True)
    return ToolFailed(problem.message[:2_000] or "the server failed without a message", retry=problem.code in _MAY_PASS)


async def _list_tools(session: ClientSession) -> list[McpToolDescription]:
    """All pages. Raises MCPError, ToolFailed for a list that does not end."""
    tools: list[McpToolDescription] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools += page.tools
        cursor = page.next_cursor
        if cursor is None:
            return tools
        if cursor in seen:
            raise ToolFailed("the server's list of tools does not end: a page was named twice")
        seen.add(cursor)
    raise ToolFailed(f"the server's list of tools has more than {_MOST_PAGES} pages")


def _chosen(listed: Sequence[McpToolDescription], allowed: Sequence[str] | None) -> list[ConnectedTool]:
    by_name = {tool.name: tool for tool in listed if 0 < len(tool.name) <= _LONGEST_NAME}
    if missing := [name for name in allowed or () if name not in by_name]:
        raise ToolsetUnusable(f"The MCP server has no tool {', '.join(missing)[:500]}.")
    names = list(by_name) if allowed is None else list(dict.fromkeys(allowed))
    if len(names) > MAX_TOOLS:
        raise ToolsetUnusable(f"The MCP server has more than {MAX_TOOLS} tools: choose some by `allowed_tools`.")
    return [_connected(by_name[name]) for name in names]


def _connected(tool: McpToolDescription) -> ConnectedTool:
    hints = tool.annotations
    try:
        compile_schema(tool.input_schema)
    except SchemaInvalid as problem:
        raise ToolsetUnusable(
            f"The schema of the tool {tool.name} cannot be used: {problem}. Leave it out by `allowed_tools`."
        ) from None
    return ConnectedTool(
        name=tool.name,
        description=(tool.description or tool.title or "")[:_LONGEST_DESCRIPTION],
        parameters=tool.input_schema,
        safe_to_repeat=hints is not None and (hints.idempotent_hint or hints.read_only_hint) is True,
    )
