"""Serves ``/agent/…``, ``/models/`` and ``/tools/``: agents, and the models and tools that agents can use."""

import re
from typing import Annotated, Any, Final

import orjson
from fastapi import Depends, Security
from pydantic import TypeAdapter
from starlette.responses import Response

from libs.contracts.errors import NotFound
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Scope
from libs.contracts.resources.agents import (
    Agent,
    AgentConfiguration,
    AgentVersion,
    AgentVersionPage,
    CreateAgent,
    CreateAgentBody,
    DeleteAgent,
    ModelPage,
    ToolPage,
    UpdateAgent,
    UpdateAgentBody,
    ValidationReport,
)
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.answers import json_answer, rendered
from services.gateway.entrypoints.door.application import Submit, Upstream
from services.gateway.entrypoints.door.bodies import ParsedBody, ParsedObject
from services.gateway.entrypoints.door.callers import by_api_key
from services.gateway.entrypoints.door.queries import ArrayPage, Page, ShortPage
from services.gateway.entrypoints.door.routes import PREFIX, answer, errors, public_router

router = public_router("/agent", "Agents")
catalogues = public_router("", "Models and tools")
Reader = Annotated[Principal, Security(by_api_key, scopes=[Scope.AGENTS_READ])]
Writer = Annotated[Principal, Security(by_api_key, scopes=[Scope.AGENTS_WRITE])]
_VERSION: Final = re.compile(r"\d{1,9}(\.\d{1,9}){0,4}", re.ASCII)
# Accepts invalid configurations, too, since this operation validates them.
_DRAFT: Final[TypeAdapter[Any]] = TypeAdapter(AgentConfiguration | dict[str, Any])
NewAgent = Annotated[CreateAgentBody, Depends(ParsedBody(CreateAgentBody))]
AgentChanges = Annotated[UpdateAgentBody, Depends(ParsedBody(UpdateAgentBody))]


@router.post(
    "/validate/",
    operation_id="agents.validate",
    summary="Validate an agent configuration",
    description="Returns errors and warnings. The configuration isn't stored.",
    responses={200: answer("The errors and warnings.", ValidationReport)},
)
async def validate_agent(
    caller: Reader,
    body: Annotated[dict[str, Any], Depends(ParsedObject(_DRAFT, CreateAgentBody.EXAMPLES))],
    upstream: Upstream,
) -> Response:
    return await upstream.post(caller, "registry", "/internal/agents/validate", orjson.dumps(body))


@router.get(
    "/",
    operation_id="agents.list",
    summary="List the agents that you can use",
    description="Returns all agents, or a page if you set `limit`. The `Link` header points to the next page.",
    responses={200: answer("Stored agents.", list[Agent])},
)
async def list_agents(caller: Reader, page: ArrayPage, upstream: Upstream) -> Response:
    limit, offset = page.limit, page.offset
    if limit is None:
        return await upstream.get(caller, "registry", "/internal/agents", {"offset": offset} if offset else None)
    # Requests one more agent, to see whether there's a next page.
    found = await upstream.get(caller, "registry", "/internal/agents", {"limit": limit + 1, "offset": offset})
    agents: list[Any] = orjson.loads(found.body)
    if len(agents) <= limit:
        return found
    following = f"{PREFIX}/agent/?limit={limit}&offset={offset + limit}"
    return json_answer(orjson.dumps(agents[:limit]), headers={"Link": f'<{following}>; rel="next"'})


@router.get(
    "/{id:name}/",
    operation_id="agents.get",
    summary="Get an agent",
    responses={200: answer("The agent.", Agent), **errors(404)},
)
async def get_agent(id: str, caller: Reader, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", f"/internal/agents/{id_of(id, 'agent')}")


@router.get(
    "/{id:name}/versions/",
    operation_id="agents.versions",
    summary="List the versions of an agent",
    description="Each change to the configuration creates an immutable version.",
    responses={200: answer("Versions, newest first.", AgentVersionPage), **errors(404)},
)
async def list_agent_versions(id: str, caller: Reader, page: Page, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", f"/internal/agents/{id_of(id, 'agent')}/versions", page.params())


@router.get(
    "/{id:name}/versions/{version}/",
    operation_id="agents.version",
    summary="Get one version of an agent",
    responses={200: answer("The version.", AgentVersion), **errors(404)},
)
async def get_agent_version(id: str, version: str, caller: Reader, upstream: Upstream) -> Response:
    agent_id = id_of(id, "agent")
    if not _VERSION.fullmatch(version):
        raise NotFound("The agent doesn't have this version.")
    return await upstream.get(caller, "registry", f"/internal/agents/{agent_id}/versions/{version}")


@router.post(
    "/",
    operation_id="agents.create",
    summary="Create an agent",
    status_code=201,
    responses={201: answer("The stored agent.", Agent, location=True)},
)
async def create_agent(_: Writer, body: NewAgent, submit: Submit) -> Response:
    made = await submit.new(CreateAgent, lambda new_id: CreateAgent(agent_id=new_id, agent=body))
    return rendered(made, "agent", location="/agent/{id}/")


@router.patch(
    "/{id:name}/",
    operation_id="agents.update",
    summary="Update an agent",
    description="Omitted fields keep their values. Changing the configuration creates a new version.",
    responses={200: answer("The updated agent.", Agent), **errors(404, 409)},
)
async def update_agent(id: str, _: Writer, body: AgentChanges, submit: Submit) -> Response:
    return rendered(await submit(UpdateAgent(agent_id=id_of(id, "agent"), changes=body)), "agent")


@router.delete(
    "/{id:name}/",
    operation_id="agents.delete",
    summary="Delete an agent",
    description="Existing sessions keep their configuration and continue to work.",
    status_code=204,
    responses={204: answer("The agent was deleted."), **errors(404, 409)},
)
async def delete_agent(id: str, _: Writer, submit: Submit) -> Response:
    return rendered(await submit(DeleteAgent(agent_id=id_of(id, "agent"))))


@catalogues.get(
    "/models/",
    operation_id="models.list",
    summary="List the models that agents can use",
    responses={200: answer("Models of the configured providers.", ModelPage)},
)
async def list_models(caller: Reader, page: ShortPage, upstream: Upstream) -> Response:
    return await upstream.get(caller, "runtime", "/internal/models", page.params())


@catalogues.get(
    "/tools/",
    operation_id="tools.list",
    summary="List the tools that agents can use",
    responses={200: answer("The built-in tools, followed by the tools in your company's toolsets.", ToolPage)},
)
async def list_tools(caller: Reader, page: ShortPage, upstream: Upstream) -> Response:
    return await upstream.get(caller, "registry", "/internal/company/tools", page.params())
