"""Fakes and builders for tests of the registry."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from libs.contracts.errors import Conflict
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity, Scope
from libs.contracts.pages import Page
from libs.contracts.resources.agents import CreateAgentBody
from services.registry.domain.agent import StoredAgent, StoredVersion, new_agent
from services.registry.domain.ports import KnowledgeBaseCheck, Provider, RuntimeCatalogue
from tests.support.pages import page_within

CATALOGUE = RuntimeCatalogue(
    providers={
        "builtin": Provider("builtin", configured=True, models=("builtin:extractive",), any_name=False),
        "openai": Provider("openai", True, ("openai:gpt-4o", "openai:gpt-4o-mini"), any_name=True),
        "anthropic": Provider("anthropic", False, ("anthropic:claude-sonnet-4-5",), any_name=True),
    },
    tools=("calculator", "current_time", "http_get"),
)


def identity(
    user: str = "user-1", company: str = "company-1", scopes: Sequence[Scope] = (Scope.AGENTS_READ, Scope.AGENTS_WRITE)
) -> Identity:
    return Identity(company_id=company, user_id=user, key_id=f"key of {user}", scopes=frozenset(scopes))


def configuration(**changes: Any) -> dict[str, Any]:
    """A valid configuration as a caller would send it."""
    return {"name": "Harbour desk", "agent_type": "llm_agent", "system_prompt": "Be brief.", **changes}


def stored_agent(owner: Identity | None = None, **changes: Any) -> StoredAgent:
    """A stored agent in its first version; ``agent_id``, ``agent_key`` and ``now`` may be given."""
    agent_id = changes.pop("agent_id", None) or new_id()
    return new_agent(
        agent_id=agent_id,
        agent_key=changes.pop("agent_key", None) or f"key-{agent_id}",
        now=changes.pop("now", datetime(2026, 5, 4, 8, 15, tzinfo=UTC)),
        body=CreateAgentBody.model_validate(configuration(**changes)),
        owner=owner or identity(),
    )


class FixedCatalogues:
    """A runtime that offers ``catalogue``, or does not answer when that is None."""

    def __init__(self, catalogue: RuntimeCatalogue | None = CATALOGUE) -> None:
        self.catalogue = catalogue
        self.asked = 0

    async def current(self, caller: Identity) -> RuntimeCatalogue | None:
        self.asked += 1
        return self.catalogue


class FixedKnowledgeBases:
    """An ingestion service with these knowledge bases, silent about ``unchecked``; None: there is none."""

    def __init__(self, existing: Sequence[str] | None = None, unchecked: Sequence[str] = ()) -> None:
        self._existing = existing
        self._unchecked = frozenset(unchecked)

    @property
    def available(self) -> bool:
        return self._existing is not None

    async def check(self, caller: Identity, ids: Sequence[str]) -> KnowledgeBaseCheck:
        missing = frozenset(ids) - frozenset(self._existing or ()) - self._unchecked
        return KnowledgeBaseCheck(missing=missing, unchecked=self._unchecked & frozenset(ids))


class FixedToolsets:
    """The tools of a company's toolsets, by toolset; only their names can be read."""

    def __init__(self, **toolsets: Sequence[str]) -> None:
        self._toolsets = toolsets

    async def tool_names(self, company_id: str) -> Mapping[str, Sequence[str]]:
        return self._toolsets if company_id == "company-1" else {}


class MemoryAgents:
    """Store of agents in memory: reader and writer in one, without transactions."""

    def __init__(self) -> None:
        self._agents: dict[str, StoredAgent] = {}
        self._versions: dict[str, list[StoredVersion]] = {}
        self._keys: set[str] = set()

    async def get(self, agent_id: str) -> StoredAgent | None:
        return self._agents.get(agent_id)

    async def get_by_key(self, agent_key: str) -> StoredAgent | None:
        return next((agent for agent in self._agents.values() if agent.agent_key == agent_key), None)

    async def visible_to(self, caller: Identity, *, limit: int | None, offset: int) -> list[StoredAgent]:
        visible = [agent for agent in self._agents.values() if agent.visible_to(caller)]
        visible.sort(key=lambda agent: (agent.created_at, agent.id), reverse=True)
        return visible[offset:] if limit is None else visible[offset : offset + limit]

    async def versions(
        self, agent_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredVersion]:
        return page_within(self._versions.get(agent_id, [])[::-1], limit=limit, offset=offset, cursor=cursor)

    async def version(self, agent_id: str, version_number: str) -> StoredVersion | None:
        versions = self._versions.get(agent_id, [])
        return next((version for version in versions if version.version_number == version_number), None)

    async def add(self, agent: StoredAgent) -> bool:
        if agent.id in self._agents:
            raise Conflict("An agent with this ID already exists.")
        if agent.agent_key in self._keys:
            return False
        self._keys.add(agent.agent_key)
        self._agents[agent.id] = agent
        self._add_version(agent, agent.owner_id)
        return True

    async def lock(self, agent_id: str) -> StoredAgent | None:
        return self._agents.get(agent_id)

    async def save(self, before: StoredAgent, after: StoredAgent, changed_by: str) -> None:
        self._agents[after.id] = after
        if after.version_number != before.version_number:
            self._add_version(after, changed_by)

    async def delete(self, agent: StoredAgent, now: datetime) -> None:
        del self._agents[agent.id]
        del self._versions[agent.id]

    def _add_version(self, agent: StoredAgent, created_by: str) -> None:
        self._versions.setdefault(agent.id, []).append(
            StoredVersion(
                version_number=agent.version_number,
                config_hash=agent.config_hash,
                system_config=agent.system_config,
                created_by=created_by,
                created_at=agent.updated_at,
            )
        )
