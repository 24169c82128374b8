"""The registry reads what the runtime answers about its models and tools."""

import httpx
import pytest
from fastapi import FastAPI

from libs.contracts.identity import Identity
from libs.service_defaults import UpstreamResponse
from libs.service_defaults.internal_routes import caller
from services.registry.adapters.internal_api.runtime import HttpRuntimeCatalogues
from services.runtime.adapters.tools.calculator import Calculator
from services.runtime.domain.models import ModelInfo, ProviderInfo
from services.runtime.domain.tools import Toolbox
from services.runtime.entrypoints.resources.catalogues import serve_catalogues
from services.runtime.use_cases.agent.schemas import ArgumentSchemas
from services.runtime.use_cases.agent.tool_tries import ToolTries
from services.runtime.use_cases.try_toolset import TryToolset
from tests.support.registry import identity


class Models:
    def providers(self) -> tuple[ProviderInfo, ...]:
        return (
            ProviderInfo("builtin", configured=True, models=(ModelInfo("builtin:x", vision=False),), any_name=False),
            ProviderInfo("openai", configured=False),
        )

    def require(self, model: str) -> ModelInfo | None:
        raise NotImplementedError

    def require_vision(self, model: str) -> None:
        raise NotImplementedError


class InProcessCalls:
    """Calls the runtime's own routes without a network in between."""

    def __init__(self, runtime: FastAPI) -> None:
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(runtime), base_url="http://runtime")

    async def get(self, upstream: str, path: str, caller: Identity, *, deadline: float) -> UpstreamResponse:
        response = await self._http.get(path)
        return UpstreamResponse(response.status_code, response.content, response.headers["content-type"])


@pytest.fixture
def runtime() -> FastAPI:
    app = FastAPI()
    serve_catalogues(app, Models(), Toolbox(Calculator()), TryToolset({}, ToolTries(), ArgumentSchemas()))
    app.dependency_overrides[caller] = identity
    return app


async def test_the_registry_understands_the_runtime(runtime: FastAPI) -> None:
    known = await HttpRuntimeCatalogues(InProcessCalls(runtime), lambda: 0.0).current(identity())  # type: ignore[arg-type]

    assert known.providers["builtin"].models == ("builtin:x",)
    assert (known.providers["builtin"].configured, known.providers["builtin"].any_name) == (True, False)
    assert (known.providers["openai"].configured, known.providers["openai"].any_name) == (False, True)
    assert known.tools == ("calculator",)
