"""Toolsets, their tools and secrets over the internal API."""

from typing import Annotated

from fastapi import APIRouter, Query

from libs.contracts.errors import InvalidRequest
from libs.contracts.resources.secrets import Secret, SecretPage
from libs.contracts.resources.toolsets import CallToolBody, CallToolReply, ConnectedToolsets, Toolset, ToolsetPage
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.registry.adapters.postgres.secrets import PostgresSecretReader
from services.registry.adapters.postgres.toolsets import PostgresToolsetReader
from services.registry.domain.secret import SecretNotFound
from services.registry.domain.toolset import require
from services.registry.use_cases.read_toolsets import ReadToolsets, ToolPage


def runtime_router(reading: ReadToolsets) -> APIRouter:
    """Toolsets as the runtime gets them at the beginning of a turn. Nobody else gets ciphertexts."""
    router = APIRouter()

    @router.get("/internal/toolsets")
    async def connected_toolsets(
        who: Caller,
        name: Annotated[list[str], Query(min_length=1, max_length=200)],
        version: Annotated[list[int], Query(max_length=200)] = [],  # noqa: B006
    ) -> ConnectedToolsets:
        """The named ones of the caller's company, in these versions or the current ones."""
        if version and len(version) != len(name):
            raise InvalidRequest("Give a version for each name, or none.")
        versions: list[int | None] = [*version] or [None] * len(name)
        wanted = list(zip(name, versions, strict=True))
        return ConnectedToolsets(toolsets=await reading.connected(who.company_id, wanted))

    return router


def toolsets_router(toolsets: PostgresToolsetReader, secrets: PostgresSecretReader, reading: ReadToolsets) -> APIRouter:
    """Replies are what the public API answers."""
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

    @router.get("/secrets")
    async def list_secrets(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> SecretPage:
        page = await secrets.page(who.company_id, limit=limit, offset=offset, cursor=cursor)
        return SecretPage(secrets=[secret.public() for secret in page.items], **page.facts)

    @router.get("/secrets/{name}")
    async def get_secret(name: str, who: Caller) -> Secret:
        secret = await secrets.get(who.company_id, name)
        if secret is None:
            raise SecretNotFound()
        return secret.public()

    @router.get("/tools")
    async def list_all_tools(who: Caller, limit: Limit = 50, offset: Offset = 0) -> ToolPage:
        """The built-in tools and those of the company's toolsets."""
        return await reading.tools(who, limit=limit, offset=offset)

    return router
