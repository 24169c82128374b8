"""Registry and runtime agree on their routes for toolsets: each is asked by the adapter of the other."""

from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from libs.contracts.errors import NotFound, ValidationFailed
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import ConnectedTool, ConnectedToolset, DiscoveredTools, LeftOutTool, TryToolCall
from libs.service_defaults import UpstreamResponse
from libs.service_defaults.errors import install_error_handlers
from libs.service_defaults.internal_routes import caller
from services.registry.adapters.internal_api.runtime import HttpToolsetRuntime
from services.registry.entrypoints.resources.toolsets import for_the_runtime
from services.runtime.adapters.internal_api.toolsets import HttpToolsets
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import Toolbox, ToolContext, ToolFailed, ToolOutput, ToolsetVersion
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable
from services.runtime.entrypoints.resources.catalogues import serve_catalogues
from services.runtime.use_cases.agent.schemas import ArgumentSchemas
from services.runtime.use_cases.agent.tool_tries import ToolTries
from services.runtime.use_cases.try_toolset import TryToolset
from tests.support.registry import identity

NO_MODELS: Any = None
NUMBER: JsonObject = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}
DESK = ConnectedToolset(
    name="desk",
    version=3,
    type="http",
    config={"tools": []},
    tools=[ConnectedTool(name="read", parameters=NUMBER, safe_to_repeat=True, binding={"method": "GET"})],
    secrets={"KEY": "Y2lwaGVydGV4dA=="},
)
LEFT_OUT = [LeftOutTool(name="write", reason="it has no schema")]


class InProcessCalls:
    """Calls a service's own routes without a network in between."""

    def __init__(self, app: FastAPI) -> None:
        self._http = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service")

    async def request(
        self, method: str, _upstream: str, path: str, _caller: Identity, *, body: bytes = b"", **how: Any
    ) -> UpstreamResponse:
        answer = await self._http.request(
            method, path, content=body, params=how.get("params"), headers={"Content-Type": "application/json"}
        )
        return UpstreamResponse(answer.status_code, answer.content, answer.headers["content-type"])

    async def get(
        self, upstream: str, path: str, caller: Identity, params: Any = None, *, deadline: float
    ) -> UpstreamResponse:
        return await self.request("GET", upstream, path, caller, params=params, deadline=deadline)


class Connector:
    """Fails for some calls as if that might pass, and counts them all."""

    def __init__(self) -> None:
        self.contexts: list[ToolContext] = []

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        if toolset.config.get("broken"):
            raise ToolsetUnusable("nobody answers there")
        return DiscoveredTools(tools=list(toolset.tools), left_out=LEFT_OUT)

    async def call(
        self, _toolset: Toolset, _tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        self.contexts.append(context)
        if arguments["number"] == 0:
            raise ToolFailed("busy", retry=True)
        return ToolOutput(f"ticket {arguments['number']}")


@pytest.fixture
def connector() -> Connector:
    return Connector()


@pytest.fixture
def runtime(connector: Connector) -> HttpToolsetRuntime:
    app = FastAPI()
    install_error_handlers(app)
    toolsets = TryToolset({"http": connector}, ToolTries(), ArgumentSchemas())
    serve_catalogues(app, NO_MODELS, Toolbox(), toolsets)
    app.dependency_overrides[caller] = lambda: identity()
    return HttpToolsetRuntime(InProcessCalls(app))  # type: ignore[arg-type]


async def test_the_registry_discovers_tools(runtime: HttpToolsetRuntime) -> None:
    assert await runtime.discover(DESK, identity()) == DiscoveredTools(tools=DESK.tools, left_out=LEFT_OUT)

    with pytest.raises(ValidationFailed, match="nobody answers there"):
        await runtime.discover(DESK.model_copy(update={"config": {"broken": True}}), identity())


async def test_the_registry_tries_a_tool(runtime: HttpToolsetRuntime, connector: Connector) -> None:
    tried = await runtime.call(
        TryToolCall(toolset=DESK, tool="read", arguments={"number": 7}, call_id="try_1"), identity()
    )

    assert (tried.status, tried.output) == ("completed", "ticket 7")
    assert tried.seconds >= 0
    assert [context.idempotency_key for context in connector.contexts] == ["try_1"]


async def test_a_tool_is_tried_once(runtime: HttpToolsetRuntime, connector: Connector) -> None:
    tried = await runtime.call(TryToolCall(toolset=DESK, tool="read", arguments={"number": 0}), identity())

    assert (tried.status, tried.output) == ("failed", "busy")
    assert len(connector.contexts) == 1


@pytest.mark.parametrize(
    ("tool", "arguments", "error"),
    [("gone", {"number": 7}, NotFound), ("read", {"number": "seven"}, ValidationFailed)],
)
async def test_what_cannot_be_tried_is_an_error(
    runtime: HttpToolsetRuntime, tool: str, arguments: JsonObject, error: type[Exception]
) -> None:
    with pytest.raises(error):
        await runtime.call(TryToolCall(toolset=DESK, tool=tool, arguments=arguments), identity())


async def test_a_finding_names_its_place_once(runtime: HttpToolsetRuntime) -> None:
    with pytest.raises(ValidationFailed) as refused:
        await runtime.call(TryToolCall(toolset=DESK, tool="read", arguments={}), identity())
    [detail] = refused.value.details or ()
    assert (detail.loc, detail.message) == (["arguments"], '"number" is a required property')
    assert refused.value.message == f"arguments: {detail.message}"


class Connect:
    def __init__(self) -> None:
        self.wanted: list[tuple[str, Sequence[tuple[str, int | None]]]] = []

    async def connected(self, company_id: str, wanted: Sequence[tuple[str, int | None]]) -> list[ConnectedToolset]:
        self.wanted.append((company_id, wanted))
        return [DESK] if wanted[0][0] == "desk" else []


async def test_the_runtime_reads_toolsets() -> None:
    app, connect = FastAPI(), Connect()
    app.include_router(for_the_runtime(connect))  # type: ignore[arg-type]
    app.dependency_overrides[caller] = lambda: identity()
    toolsets = HttpToolsets(InProcessCalls(app))  # type: ignore[arg-type]

    (found,) = await toolsets.toolsets(["desk", "gone"], identity(), [ToolsetVersion("desk", 3)])

    assert (found.company_id, found.name, found.version, found.type) == (identity().company_id, "desk", 3, "http")
    assert (found.tools, found.secrets) == (tuple(DESK.tools), DESK.secrets)
    assert sorted(connect.wanted) == [(identity().company_id, [("desk", 3)]), (identity().company_id, [("gone", None)])]
    assert (await toolsets.toolsets(["desk"], identity()))[0] is found, "the same answer is the same object"
