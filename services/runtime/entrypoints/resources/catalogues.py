"""Serves the catalogs of models and tools, and uses toolsets outside of turns."""

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter, FastAPI, Query

from libs.contracts.resources.toolsets import CallToolReply, ConnectedToolset, DiscoveredTools, TryToolCall
from libs.service_defaults import Caller, Offset
from services.runtime.domain.models import ModelCatalogue
from services.runtime.domain.tools import Toolbox
from services.runtime.use_cases.try_toolset import TryToolset

Limit = Annotated[int | None, Query(ge=1, le=200)]


def serve_catalogues(http: FastAPI, models: ModelCatalogue, toolbox: Toolbox, toolsets: TryToolset) -> None:
    router = APIRouter(prefix="/internal")

    @router.get("/models")
    async def list_models(_who: Caller, limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        """Returns the providers and their listed models (one page, or all). Some providers accept any model name."""
        providers = [provider.to_json() for provider in models.providers()]
        listed = [{**model, "provider": item["provider"]} for item in providers for model in item["models"]]
        return {"providers": providers, **_page("models", listed, limit, offset)}

    @router.get("/tools")
    async def list_tools(_who: Caller, limit: Limit = None, offset: Offset = 0) -> dict[str, Any]:
        return _page("tools", toolbox.to_json(), limit, offset)

    @router.post("/toolsets/discover")
    async def discover(toolset: ConnectedToolset, who: Caller) -> DiscoveredTools:
        return await toolsets.discover(toolset, who)

    @router.post("/toolsets/call")
    async def call(wanted: TryToolCall, who: Caller) -> CallToolReply:
        return await toolsets.call(wanted, who)

    http.include_router(router)


def _page(name: str, items: Sequence[Any], limit: int | None, offset: int) -> dict[str, Any]:
    end = len(items) if limit is None else offset + limit
    return {name: items[offset:end], "total": len(items), "has_more": end < len(items)}
