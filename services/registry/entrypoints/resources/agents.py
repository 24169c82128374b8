"""Routes and command handlers of agents and their configurations."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, FastAPI, Query

from libs.contracts.errors import NotFound
from libs.contracts.resources.agents import (
    Agent,
    AgentVersion,
    AgentVersionPage,
    CreateAgent,
    DeleteAgent,
    UpdateAgent,
    ValidationReport,
)
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.registry.domain.agent import AgentNotFound, require_visible
from services.registry.domain.ports import AgentReader
from services.registry.use_cases.agents import Agents
from services.registry.use_cases.configurations import Configurations, NormalizedConfiguration

Document = Annotated[Any, Body()]


def serve_agents(
    commands: CommandRouter, http: FastAPI, agents: Agents, reads: AgentReader, configurations: Configurations
) -> None:
    commands.handle_prepared(CreateAgent, agents.check_new, agents.create)
    commands.handle_prepared(UpdateAgent, agents.check_change, agents.update)
    commands.handle(DeleteAgent, agents.delete)
    http.include_router(_reads(reads))
    http.include_router(_checks(configurations))


def _reads(agents: AgentReader) -> APIRouter:
    router = APIRouter(prefix="/internal/agents")

    @router.get("")
    async def list_agents(
        who: Caller, limit: Annotated[int | None, Query(ge=1, le=201)] = None, offset: Offset = 0
    ) -> list[Agent]:
        """Lists agents. ``limit`` may exceed a page's maximum by one, to detect whether there's a next page."""
        return [agent.public() for agent in await agents.visible_to(who, limit=limit, offset=offset)]

    @router.get("/by-key/{agent_key}")
    async def get_agent_by_key(agent_key: str, who: Caller) -> Agent:
        return require_visible(await agents.get_by_key(agent_key), who).public()

    @router.get("/public/{agent_key}")
    async def get_public_agent(agent_key: str, _: Caller, in_web_pages: bool = True) -> Agent:
        """Returns a public agent. With ``in_web_pages``, the agent must also allow web pages to use it."""
        agent = await agents.get_by_key(agent_key)
        if agent is None or not (agent.usable_in_web_pages if in_web_pages else agent.is_public):
            raise AgentNotFound()
        return agent.public()

    @router.get("/{agent_id}")
    async def get_agent(agent_id: str, who: Caller) -> Agent:
        return require_visible(await agents.get(agent_id), who).public()

    @router.get("/{agent_id}/versions")
    async def list_versions(
        agent_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> AgentVersionPage:
        require_visible(await agents.get(agent_id), who)
        page = await agents.versions(agent_id, limit=limit, offset=offset, cursor=cursor)
        return AgentVersionPage(versions=[version.public() for version in page.items], **page.facts)

    @router.get("/{agent_id}/versions/{version_number}")
    async def get_version(agent_id: str, version_number: str, who: Caller) -> AgentVersion:
        require_visible(await agents.get(agent_id), who)
        version = await agents.version(agent_id, version_number)
        if version is None:
            raise NotFound("The agent doesn't have this version.")
        return version.public()

    return router


def _checks(configurations: Configurations) -> APIRouter:
    router = APIRouter(prefix="/internal/agents")

    @router.post("/validate")
    async def validate_configuration(document: Document, who: Caller) -> ValidationReport:
        return await configurations.validate(document, who)

    @router.post("/normalize")
    async def normalize_configuration(document: Document, who: Caller) -> NormalizedConfiguration:
        return await configurations.normalize(document, who)

    return router
