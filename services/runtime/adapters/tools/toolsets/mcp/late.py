"""Imports the MCP connector on first use, since its SDK would make imports at startup take a fifth longer."""

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Final

from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools
from libs.outbound import GuardedResolver
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolOutput
from services.runtime.domain.toolsets import Toolset

if TYPE_CHECKING:
    from services.runtime.adapters.tools.toolsets.mcp.connector import McpConnector

_CONNECTOR: Final = "services.runtime.adapters.tools.toolsets.mcp.connector"


class LateMcpConnector:
    """Implements ToolsetConnector with an McpConnector that is created on first use."""

    def __init__(
        self, resolver: GuardedResolver, secrets: ToolsetSecrets, artifacts: SessionArtifacts | None = None
    ) -> None:
        self._parts = resolver, secrets, artifacts
        self._connector: McpConnector | None = None

    async def _late(self) -> "McpConnector":
        if self._connector is None:
            # Imported in a thread, so that turns and leases aren't blocked.
            module = await asyncio.to_thread(import_module, _CONNECTOR)
            self._connector = self._connector or module.McpConnector(*self._parts)
        return self._connector

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        return await (await self._late()).discover(toolset)

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        return await (await self._late()).call(toolset, tool, arguments, context)

    async def close(self) -> None:
        if self._connector is not None:
            await self._connector.close()
