"""What models and tools this runtime offers."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends

from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.runtime.domain.models import ModelCatalogue
from services.runtime.domain.tools import Toolbox

Caller = Annotated[Identity, Depends(caller)]


def catalogues_router(models: ModelCatalogue, toolbox: Toolbox) -> APIRouter:
    router = APIRouter(prefix="/internal")

    @router.get("/models")
    async def list_models(_who: Caller) -> dict[str, Any]:
        """The models known by name, and the providers, some of which take any name."""
        providers = [provider.to_json() for provider in models.providers()]
        listed = [{**model, "provider": item["provider"]} for item in providers for model in item["models"]]
        return {"models": listed, "providers": providers, "total": len(listed), "has_more": False}

    @router.get("/tools")
    async def list_tools(_who: Caller) -> dict[str, Any]:
        tools = toolbox.to_json()
        return {"tools": tools, "total": len(tools), "has_more": False}

    return router
