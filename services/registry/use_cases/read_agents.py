"""Read stored agents and their versions, as far as the caller may see them."""

from pydantic import BaseModel

from libs.contracts.api.agents import Agent, AgentVersion
from libs.contracts.errors import NotFound
from libs.contracts.identity import Identity
from services.registry.domain.agent import AgentNotFound, StoredAgent
from services.registry.domain.ports import AgentReader


class AgentVersionPage(BaseModel):
    """Newest version first."""

    versions: list[AgentVersion]
    total: int
    has_more: bool


class AgentReading:
    """Whatever the caller may not see is not found."""

    def __init__(self, reader: AgentReader) -> None:
        self._reader = reader

    async def all(self, caller: Identity, *, limit: int | None, offset: int) -> list[Agent]:
        found = await self._reader.visible_to(caller, limit=limit, offset=offset)
        return [agent.public() for agent in found]

    async def one(self, agent_id: str, caller: Identity) -> Agent:
        return _visible(await self._reader.get(agent_id), caller).public()

    async def by_key(self, agent_key: str, caller: Identity) -> Agent:
        return _visible(await self._reader.get_by_key(agent_key), caller).public()

    async def open_to_visitors(self, agent_key: str) -> Agent:
        """The agent of any company whose key is one that web pages may use. Raises ``AgentNotFound``."""
        agent = await self._reader.get_by_key(agent_key)
        if agent is None or not agent.open_to_visitors:
            raise AgentNotFound()
        return agent.public()

    async def versions(self, agent_id: str, caller: Identity, *, limit: int, offset: int) -> AgentVersionPage:
        _visible(await self._reader.get(agent_id), caller)
        total = await self._reader.count_versions(agent_id)
        page = await self._reader.versions(agent_id, limit=limit, offset=offset)
        return AgentVersionPage(
            versions=[version.public() for version in page], total=total, has_more=offset + len(page) < total
        )

    async def version(self, agent_id: str, version_number: str, caller: Identity) -> AgentVersion:
        _visible(await self._reader.get(agent_id), caller)
        version = await self._reader.version(agent_id, version_number)
        if version is None:
            raise NotFound("this agent has no such version")
        return version.public()


def _visible(agent: StoredAgent | None, caller: Identity) -> StoredAgent:
    if agent is None:
        raise AgentNotFound()
    agent.require_visible(caller)
    return agent
