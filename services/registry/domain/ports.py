"""Ports of the configuration checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from services.registry.domain.agent import StoredAgent, StoredVersion


class AgentReader(Protocol):
    """Reads agents that aren't deleted."""

    async def get(self, agent_id: str) -> StoredAgent | None: ...

    async def get_by_key(self, agent_key: str) -> StoredAgent | None: ...

    async def visible_to(self, caller: Identity, *, limit: int | None, offset: int) -> list[StoredAgent]:
        """Returns a page of the agents that the caller can see, newest first."""

    async def versions(
        self, agent_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredVersion]:
        """Returns a page of an agent's versions, newest first."""

    async def version(self, agent_id: str, version_number: str) -> StoredVersion | None: ...


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider. ``configured`` is true if this installation has the provider's credentials."""

    name: str
    configured: bool
    models: tuple[str, ...]
    any_name: bool


@dataclass(frozen=True, slots=True)
class RuntimeCatalogue:
    """The runtime's built-in tools, and its model providers by name."""

    providers: Mapping[str, Provider]
    tools: tuple[str, ...]
    definitions: tuple[Mapping[str, Any], ...] = ()


class RuntimeCatalogues(Protocol):
    async def current(self, caller: Identity) -> RuntimeCatalogue | None:
        """Returns the runtime's models and tools, or None if they can't be read."""


@dataclass(frozen=True, slots=True)
class KnowledgeBaseCheck:
    """The IDs of knowledge bases that don't exist (``missing``) or couldn't be checked (``unchecked``)."""

    missing: frozenset[str] = frozenset()
    unchecked: frozenset[str] = frozenset()


class KnowledgeBases(Protocol):
    @property
    def available(self) -> bool:
        """Returns whether this installation includes the ingestion service."""

    async def check(self, caller: Identity, ids: Sequence[str]) -> KnowledgeBaseCheck:
        """Checks whether the knowledge bases exist. Never raises an error."""


class ToolsetTools(Protocol):
    async def tool_names(self, company_id: str) -> Mapping[str, Sequence[str]]:
        """Returns the tool names of each toolset, by toolset name."""
