"""Reads of agents over the internal API; the replies are what the public API answers."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from libs.contracts.api.agents import Agent, AgentVersion
from libs.contracts.identity import Identity
from libs.service_defaults import caller
from services.registry.use_cases.read_agents import AgentReading, AgentVersionPage

Caller = Annotated[Identity, Depends(caller)]
Limit = Annotated[int, Query(ge=1, le=200)]
Offset = Annotated[int, Query(ge=0, le=2**31)]


def agents_router(reading: AgentReading) -> APIRouter:
    router = APIRouter(prefix="/internal/agents")

    @router.get("")
    async def list_agents(
        who: Caller, limit: Annotated[int | None, Query(ge=1, le=200)] = None, offset: Offset = 0
    ) -> list[Agent]:
        return await reading.all(who, limit=limit, offset=offset)

    @router.get("/by-key/{agent_key}")
    async def get_agent_by_key(agent_key: str, who: Caller) -> Agent:
        return await reading.by_key(agent_key, who)

    @router.get("/public/{agent_key}")
    async def get_public_agent(agent_key: str, _: Caller) -> Agent:
        return await reading.open_to_visitors(agent_key)

    @router.get("/{agent_id}")
    async def get_agent(agent_id: str, who: Caller) -> Agent:
        return await reading.one(agent_id, who)

    @router.get("/{agent_id}/versions")
    async def list_versions(agent_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0) -> AgentVersionPage:
        return await reading.versions(agent_id, who, limit=limit, offset=offset)

    @router.get("/{agent_id}/versions/{version_number}")
    async def get_version(agent_id: str, version_number: str, who: Caller) -> AgentVersion:
        return await reading.version(agent_id, version_number, who)

    return router
