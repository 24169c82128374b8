"""Connects toolsets of type `mcp`, over streamable HTTP."""

import logging
from collections.abc import Sequence
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

from libs.contracts.resources.toolsets import MAX_TOOLS, ConnectedTool, DiscoveredTools, LeftOutTool
from libs.json_schema import SchemaInvalid, compile_schema
from libs.outbound import GuardedResolver
from services.runtime.adapters.tools.toolsets.mcp.answers import LEFT_OUT, LISTED
from services.runtime.adapters.tools.toolsets.mcp.connections import McpConnection, McpConnections
from services.runtime.adapters.tools.toolsets.mcp.content import tool_output
from services.runtime.adapters.tools.toolsets.mcp.transport import TOO_LARGE, Failure, GuardedTransport
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable

_MOST_PAGES: Final = 50
_LONGEST_NAME: Final = 150
_LONGEST_DESCRIPTION: Final = 4_000
_MAY_PASS: Final = frozenset({Failure.UNREACHABLE, Failure.BROKEN, Failure.PASSING_STATUS})

_RESULT: Final[TypeAdapter[CallToolResult | InputRequiredResult]] = TypeAdapter(CallToolResult | InputRequiredResult)


class McpConnector:
    def __init__(
        self,
        resolver: GuardedResolver,
        secrets: ToolsetSecrets,
        artifacts: SessionArtifacts | None = None,
        connections: McpConnections | None = None,
    ) -> None:
        # The SDK logs messages of servers, which may contain secrets.
        logging.getLogger("mcp").setLevel(logging.CRITICAL + 1)
        self._resolver = resolver
        self._secrets = secrets
        self._artifacts = artifacts
        self._connections = McpConnections() if connections is None else connections

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        # Use a new connection, since a problem with the existing one may be the reason for this request.
        connection = self._connect(toolset)
        try:
            listed, left_out = await _list_tools(await connection.session())
        except MCPError as problem:
            raise ToolsetUnusable.at("url", f"Couldn't list the MCP server's tools: {problem.message[:500]}") from None
        except ValidationError:
            raise ToolsetUnusable("The MCP server's list of tools violates the protocol.") from None
        except ToolFailed as problem:
            raise ToolsetUnusable.at("url", str(problem)) from None
        finally:
            await connection.close()
        return _chosen(listed, left_out, toolset.config.get("allowed_tools"))

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        # A new secret requires a new connection, so the ciphertexts are part of the key.
        key = toolset.company_id, toolset.name, toolset.version, frozenset(toolset.secrets.items())
        connect = partial(self._connect, toolset)
        for again in (True, False):
            async with self._connections.use(key, connect) as connection:
                known, connection.used = connection.used, True
                try:
                    result = await _send(await connection.session(), tool, arguments, context)
                    break
                except MCPError as problem:
                    connection.retired = True
                    if not (again and known and _may_be_sent_again(tool, problem)):
                        raise _failure(problem) from None
                except ValidationError:
                    raise ToolFailed("the server's response violates the protocol") from None
                except BaseException:
                    # After a timeout, the next call to this server uses a new connection.
                    connection.retired = True
                    raise
        if isinstance(result, InputRequiredResult):
            raise ToolFailed("the server requests additional input, which isn't supported")
        return await tool_output(result, tool.name, self._artifacts, context)

    async def close(self) -> None:
        await self._connections.close()

    def _connect(self, toolset: Toolset) -> McpConnection:
        headers = partial(self._secrets.headers, toolset, toolset.config.get("headers") or {})
        return McpConnection(toolset.config["url"], GuardedTransport(self._resolver, headers))


def _may_be_sent_again(tool: ConnectedTool, problem: MCPError) -> bool:
    """Returns whether the server certainly hasn't executed the call, for example after a restart, or may repeat it."""
    if problem.code == Failure.UNEXPLAINED:
        return tool.safe_to_repeat
    return problem.code in (Failure.SESSION_GONE, UNSUPPORTED_PROTOCOL_VERSION)


async def _send(
    session: ClientSession, tool: ConnectedTool, arguments: JsonObject, context: ToolContext
) -> CallToolResult | InputRequiredResult:
    """Sends one call. Doesn't use the SDK's `call_tool`, because that also lists the tools after each call."""
    params = CallToolRequestParams(
        name=tool.name, arguments=arguments, _meta={"Idempotency-Key": context.idempotency_key}
    )
    request = CallToolRequest(params=params)
    try:
        return await session.send_request(request, _RESULT)
    except MCPError as problem:
        if problem.code != HEADER_MISMATCH:
            raise
    # The server hasn't executed the call, because it expects some arguments in headers. Its tool list says which.
    await _list_tools(session)
    return await session.send_request(request, _RESULT)


def _failure(problem: MCPError) -> ToolFailed:
    if problem.code == CONNECTION_CLOSED and TOO_LARGE in problem.message:
        return ToolFailed(TOO_LARGE)
    if problem.code == CONNECTION_CLOSED:
        return ToolFailed("the connection ended before the response", retry=True)
    return ToolFailed(
        problem.message[:2_000] or "the server failed without an error message", retry=problem.code in _MAY_PASS
    )


async def _list_tools(session: ClientSession) -> tuple[list[McpToolDescription], list[LeftOutTool]]:
    """Returns the tools on all pages, and the omitted tools. Raises MCPError, or ToolFailed if the list doesn't end."""
    tools: list[McpToolDescription] = []
    left_out: list[LeftOutTool] = []
    cursor: str | None = None
    seen: set[str] = set()
    for _ in range(_MOST_PAGES):
        page = await session.list_tools(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        tools += page.tools
        meta, kept = page.meta or {}, {tool.name for tool in page.tools}
        left_out += [LeftOutTool.of(name, reason) for name, reason in meta.get(LEFT_OUT, ())]
        dropped = [name for name in meta.get(LISTED, ()) if name not in kept]
        left_out += [LeftOutTool.of(name, "its x-mcp-header isn't valid") for name in dropped]
        cursor = page.next_cursor
        if cursor is None:
            return tools, left_out
        if cursor in seen:
            raise ToolFailed("the server's list of tools doesn't end: the server returned the same page twice")
        seen.add(cursor)
    raise ToolFailed(f"the server's list of tools has more than {_MOST_PAGES} pages")


def _chosen(
    listed: Sequence[McpToolDescription], left_out: Sequence[LeftOutTool], allowed: Sequence[str] | None
) -> DiscoveredTools:
    """Returns the usable tools. Raises ToolsetUnusable if a tool in `allowed` isn't among them."""
    usable: dict[str, ConnectedTool] = {}
    unusable = {tool.name: tool for tool in left_out}
    for tool in listed:
        if allowed is not None and tool.name not in allowed:
            continue
        reason = "an earlier tool has the same name" if tool.name in usable else _reason_against(tool)
        if reason is None:
            usable[tool.name] = _connected(tool)
        else:
            unusable.setdefault(tool.name, LeftOutTool.of(tool.name, reason))
    if allowed is None:
        if len(usable) > MAX_TOOLS:
            raise ToolsetUnusable(f"The MCP server has more than {MAX_TOOLS} tools. Select some with allowed_tools.")
        if unusable and not usable:
            problems = "; ".join(f"{tool.name}: {tool.reason}" for tool in unusable.values())
            raise ToolsetUnusable(f"None of the MCP server's tools can be used: {problems[:1_000]}.")
        return DiscoveredTools(tools=list(usable.values()), left_out=list(unusable.values()))
    missing = [name for name in allowed if name not in usable]
    for name in missing:
        if name in unusable:
            raise ToolsetUnusable(f"The MCP server's tool {name} can't be used: {unusable[name].reason}.")
    if missing:
        raise ToolsetUnusable(f"allowed_tools lists tools that the server doesn't have: {', '.join(missing)[:500]}.")
    return DiscoveredTools(tools=[usable[name] for name in dict.fromkeys(allowed)])


def _reason_against(tool: McpToolDescription) -> str | None:
    if not 0 < len(tool.name) <= _LONGEST_NAME:
        return f"its name must have 1 to {_LONGEST_NAME} characters"
    if not tool.name.isprintable() or " " in tool.name:
        return "its name contains spaces or unprintable characters"
    try:
        compile_schema(tool.input_schema)
    except SchemaInvalid as problem:
        return f"its schema can't be used: {problem}"
    return None


def _connected(tool: McpToolDescription) -> ConnectedTool:
    hints = tool.annotations
    return ConnectedTool(
        name=tool.name,
        description=(tool.description or tool.title or "")[:_LONGEST_DESCRIPTION],
        parameters=tool.input_schema,
        safe_to_repeat=hints is not None and (hints.idempotent_hint or hints.read_only_hint) is True,
    )
