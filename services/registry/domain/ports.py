"""Ports of the checks of configurations: stored agents, toolsets, the runtime's catalogue, knowledge bases."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from services.registry.domain.agent import StoredAgent, StoredVersion


class AgentReader(Protocol):
    """Reads committed agents, not deleted ones."""

    async def get(self, agent_id: str) -> StoredAgent | None: ...

    async def get_by_key(self, agent_key: str) -> StoredAgent | None: ...

    async def visible_to(self, caller: Identity, *, limit: int | None, offset: int) -> list[StoredAgent]:
        """Agents that the caller may see, newest first."""

    async def versions(
        self, agent_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[StoredVersion]:
        """Newest first."""

    async def version(self, agent_id: str, version_number: str) -> StoredVersion | None: ...


@dataclass(frozen=True, slots=True)
class Provider:
    """A model provider. ``configured``: this installation has credentials for it."""

    name: str
    configured: bool
    models: tuple[str, ...]
    any_name: bool


@dataclass(frozen=True, slots=True)
class RuntimeCatalogue:
    """The runtime's model providers by name, and its tools: their names, and what it says about them."""

    providers: Mapping[str, Provider]
    tools: tuple[str, ...]
    definitions: tuple[Mapping[str, Any], ...] = ()


class RuntimeCatalogues(Protocol):
    async def current(self, caller: Identity) -> RuntimeCatalogue | None:
        """The runtime's catalogue, at most half a minute old; None when it does not answer."""


@dataclass(frozen=True, slots=True)
class KnowledgeBaseCheck:
    """``missing``: knowledge bases the company does not have. ``unchecked``: ingestion did not answer about them."""

    missing: frozenset[str] = frozenset()
    unchecked: frozenset[str] = frozenset()


class KnowledgeBases(Protocol):
    @property
    def available(self) -> bool:
        """Whether this installation has ingestion at all."""

    async def check(self, caller: Identity, ids: Sequence[str]) -> KnowledgeBaseCheck:
        """Never raises."""


class ToolsetTools(Protocol):
    async def tool_names(self, company_id: str) -> Mapping[str, Sequence[str]]:
        """The names of the tools of every toolset."""
