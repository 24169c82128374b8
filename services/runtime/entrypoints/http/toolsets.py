"""Toolsets outside of turns, for the registry: which tools a target offers, and a call to try one out."""

from fastapi import APIRouter

from libs.contracts.api.toolsets import CallToolReply, ConnectedToolset, DiscoveredTools, TryToolCall
from libs.service_defaults import Caller
from services.runtime.use_cases.try_toolset import DiscoverTools, TryTool


def toolsets_router(discover_tools: DiscoverTools, try_tool: TryTool) -> APIRouter:
    router = APIRouter(prefix="/internal/toolsets")

    @router.post("/discover")
    async def discover(toolset: ConnectedToolset, who: Caller) -> DiscoveredTools:
        return await discover_tools(toolset, who)

    @router.post("/call")
    async def call(wanted: TryToolCall, who: Caller) -> CallToolReply:
        return await try_tool(wanted, who)

    return router
