"""Routes and command handlers of toolsets and their tools."""

from typing import Annotated, Final

from fastapi import APIRouter, FastAPI, Query

from libs.contracts.errors import InvalidRequest
from libs.contracts.resources.toolsets import (
    CallToolBody,
    CallToolReply,
    ConnectedToolsets,
    CreateToolset,
    DeleteToolset,
    RefreshToolset,
    Toolset,
    ToolsetPage,
    UpdateToolset,
)
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader
from services.registry.domain.toolset import require
from services.registry.use_cases.read_toolsets import ReadToolsets, ToolPage
from services.registry.use_cases.toolsets import Toolsets

# A command waits for the target's list of tools. The gateway waits longer.
_DISCOVERY_SECONDS: Final = 20.0


def serve_toolsets(
    commands: CommandRouter, http: FastAPI, toolsets: Toolsets, reads: PostgresToolsetReader, reading: ReadToolsets
) -> None:
    commands.handle_prepared(CreateToolset, toolsets.check_new, toolsets.create, seconds=_DISCOVERY_SECONDS)
    commands.handle_prepared(UpdateToolset, toolsets.check_change, toolsets.update, seconds=_DISCOVERY_SECONDS)
    commands.handle_prepared(RefreshToolset, toolsets.check_refresh, toolsets.update, seconds=_DISCOVERY_SECONDS)
    commands.handle(DeleteToolset, toolsets.delete)
    http.include_router(for_the_runtime(reading))
    http.include_router(_reads(reads, reading))


def for_the_runtime(reading: ReadToolsets) -> APIRouter:
    """Returns the route from which the runtime reads toolsets. No other service receives ciphertexts."""
    router = APIRouter()

    @router.get("/internal/toolsets")
    async def connected_toolsets(
        who: Caller,
        name: Annotated[list[str], Query(min_length=1, max_length=200)],
        version: Annotated[list[int], Query(max_length=200)] = [],  # noqa: B006
    ) -> ConnectedToolsets:
        """Returns the company's toolsets by name, in the given versions or the current ones."""
        if version and len(version) != len(name):
            raise InvalidRequest("Give a version for every name, or for none.")
        versions: list[int | None] = [*version] or [None] * len(name)
        wanted = list(zip(name, versions, strict=True))
        return ConnectedToolsets(toolsets=await reading.connected(who.company_id, wanted))

    return router


def _reads(toolsets: PostgresToolsetReader, reading: ReadToolsets) -> APIRouter:
    router = APIRouter(prefix="/internal/company")

    @router.get("/toolsets")
    async def list_toolsets(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> ToolsetPage:
        page = await toolsets.page(who.company_id, limit=limit, offset=offset, cursor=cursor)
        return ToolsetPage(toolsets=[toolset.public() for toolset in page.items], **page.facts)

    @router.get("/toolsets/{name}")
    async def get_toolset(name: str, who: Caller) -> Toolset:
        return require(await toolsets.get(who.company_id, name)).public(with_document=True)

    @router.post("/toolsets/{name}/tools/{tool:path}/call")
    async def call_tool(name: str, tool: str, body: CallToolBody, who: Caller) -> CallToolReply:
        return await reading.try_tool(who, name, tool, body.arguments)

    @router.get("/tools")
    async def list_all_tools(who: Caller, limit: Limit = 50, offset: Offset = 0) -> ToolPage:
        """Returns the built-in tools, then the tools of the company's toolsets."""
        return await reading.tools(who, limit=limit, offset=offset)

    return router
