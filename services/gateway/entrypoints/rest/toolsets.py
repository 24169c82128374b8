"""Serves ``/toolsets/…``: custom tools."""

import re
from typing import Annotated, Final
from urllib.parse import quote

from fastapi import Depends, Security
from starlette.responses import Response

from libs.contracts.errors import NotFound, TooLarge
from libs.contracts.identity import Scope
from libs.contracts.messages import Command
from libs.contracts.resources.toolsets import (
    CallToolBody,
    CallToolReply,
    CreateToolset,
    CreateToolsetBody,
    DeleteToolset,
    RefreshToolset,
    Toolset,
    ToolsetPage,
    UpdateToolset,
    UpdateToolsetBody,
)
from libs.contracts.topics import MAX_MESSAGE_BYTES
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import rendered
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import Page
from services.gateway.entrypoints.door.routes import answer, errors, public_router

router = public_router("/toolsets", "Toolsets")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.TOOLSETS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.TOOLSETS_WRITE])]
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}", re.ASCII)
# A document of 2 MB, plus room for the other fields.
_MOST_BODY: Final = 2_040_000
# Leaves room for the envelope.
_MOST_COMMAND: Final = MAX_MESSAGE_BYTES - 32 * 1024
# The registry fetches the tools before it accepts the command, for up to 20 s.
_DISCOVERY_SECONDS: Final = 25.0
# Trying a tool may take two minutes.
_TRIAL_SECONDS: Final = 140.0
NewToolset = Annotated[CreateToolsetBody, Depends(ParsedBody(CreateToolsetBody, most_bytes=_MOST_BODY))]
ToolsetChanges = Annotated[UpdateToolsetBody, Depends(ParsedBody(UpdateToolsetBody, most_bytes=_MOST_BODY))]
ToolCall = Annotated[CallToolBody, Depends(ParsedBody(CallToolBody))]


@router.get(
    "/",
    operation_id="toolsets.list",
    summary="List toolsets",
    responses={200: answer("Toolsets, by name.", ToolsetPage)},
)
async def list_toolsets(caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", "/internal/company/toolsets", page.params())


@router.get(
    "/{name}/",
    operation_id="toolsets.get",
    summary="Get a toolset",
    description="Includes the OpenAPI document, if any. Lists and responses to changes omit the document.",
    responses={200: answer("The toolset.", Toolset), **errors(404)},
)
async def get_toolset(name: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", f"/internal/company/toolsets/{_known(name)}")


@router.post(
    "/",
    operation_id="toolsets.create",
    summary="Create a toolset",
    description=(
        "Adds tools from an MCP server or an OpenAPI document, or tools that each send one HTTP request. A server's or"
        " document's tools are fetched before the response, with a timeout of 20 s. Agents reference a tool as"
        " `<toolset>.<tool>`, or all tools as `<toolset>.*`. The JSON body can be up to 2 MB."
    ),
    status_code=201,
    responses={201: answer("The toolset with its tools.", Toolset, location=True), **errors(409)},
)
async def create_toolset(_: Writer, body: NewToolset, submit: Submit) -> Response:
    command = _bounded(CreateToolset(toolset=body))
    made = await submit(command, accepted_within=_DISCOVERY_SECONDS)
    return rendered(made, "toolset", location="/toolsets/{name}/")


@router.patch(
    "/{name}/",
    operation_id="toolsets.update",
    summary="Update a toolset",
    description=(
        "Omitted fields keep their values; `null` clears a field. The tools are fetched again. A change"
        " creates a new version for turns that start later."
    ),
    responses={200: answer("The updated toolset.", Toolset), **errors(404, 409)},
)
async def update_toolset(name: str, _: Writer, body: ToolsetChanges, submit: Submit) -> Response:
    command = _bounded(UpdateToolset(name=_known(name), changes=body))
    return rendered(await submit(command, accepted_within=_DISCOVERY_SECONDS), "toolset")


@router.post(
    "/{name}/refresh/",
    operation_id="toolsets.refresh",
    summary="Refresh a toolset's tools",
    description="If the server doesn't respond, the toolset remains unchanged.",
    responses={200: answer("The refreshed toolset.", Toolset), **errors(404, 409)},
)
async def refresh_toolset(name: str, _: Writer, submit: Submit) -> Response:
    command = RefreshToolset(name=_known(name))
    return rendered(await submit(command, accepted_within=_DISCOVERY_SECONDS), "toolset")


@router.delete(
    "/{name}/",
    operation_id="toolsets.delete",
    summary="Delete a toolset",
    description="Agents that reference the toolset continue without its tools. Their turns report this in `warnings`.",
    status_code=204,
    responses={204: answer("The toolset was deleted."), **errors(404)},
)
async def delete_toolset(name: str, _: Writer, submit: Submit) -> Response:
    return rendered(await submit(DeleteToolset(name=_known(name))))


@router.post(
    "/{name}/tools/{tool:path}/call/",
    operation_id="toolsets.call",
    summary="Try a tool",
    description=(
        "Calls a tool immediately, outside any session and without retries or approval."
        " A failed call returns `status: failed`. The timeout is two minutes."
    ),
    responses={200: answer("The result of the call.", CallToolReply), **errors(404)},
)
async def call_tool(name: str, tool: str, caller: Writer, body: ToolCall, upstream: Upstream) -> Response:
    path = f"/internal/company/toolsets/{_known(name)}/tools/{quote(tool, safe='')}/call"
    return await upstream.post_once(caller, "registry", path, body.model_dump_json().encode(), deadline=_TRIAL_SECONDS)


def _bounded(command: Command) -> Command:
    """Raises ``TooLarge`` if the command is too large for a Kafka message."""
    if len(command.encode()) > _MOST_COMMAND:
        raise TooLarge.beyond(_MOST_COMMAND, "The toolset")
    return command


def _known(name: str) -> str:
    """Raises ``NotFound`` for an invalid name, which no toolset can have."""
    if not _NAME.fullmatch(name):
        raise NotFound("There is no toolset with this name.")
    return name
