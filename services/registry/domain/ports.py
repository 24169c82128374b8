"""Ports: the stores of agents, toolsets and secrets, and other services."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from libs.contracts.api.pages import Page
from libs.contracts.api.toolsets import CallToolReply, ConnectedTool, ConnectedToolset, DiscoveredTools, TryToolCall
from libs.contracts.identity import Identity
from services.registry.domain.agent import StoredAgent, StoredVersion
from services.registry.domain.secret import StoredSecret
from services.registry.domain.toolset import StoredToolset


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


class AgentWriter(Protocol):
    """Changes agents inside one transaction, which the caller commits."""

    async def add(self, agent: StoredAgent) -> bool:
        """Stores a new agent with its first version. Returns False when its key is taken.

        Waits for a transaction that is about to take the same key. Raises ``Conflict`` when the id is taken.
        """

    async def lock(self, agent_id: str) -> StoredAgent | None:
        """Locks the agent until the end of the transaction."""

    async def save(self, before: StoredAgent, after: StoredAgent, changed_by: str) -> None:
        """Stores a locked agent's new state, and a new version when the version number is another."""

    async def delete(self, agent: StoredAgent, now: datetime) -> None:
        """Removes a locked agent and its versions. Its key stays taken: it may stand in web pages."""


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


class ToolsetReader(Protocol):
    """Reads a company's toolsets; deleted ones are not there."""

    async def get(self, company_id: str, name: str) -> StoredToolset | None: ...

    async def versions(self, company_id: str, wanted: Sequence[tuple[str, int | None]]) -> list[StoredToolset]:
        """The named toolsets that exist, in that version, or in the current one without it."""

    async def page(self, company_id: str, *, limit: int, offset: int, cursor: str | None = None) -> Page[StoredToolset]:
        """By name. Without documents."""

    async def tool_names(self, company_id: str) -> Mapping[str, Sequence[str]]:
        """The names of the tools of every toolset."""

    async def count_tools(self, company_id: str) -> int: ...

    async def tools(self, company_id: str, *, limit: int, offset: int) -> list[tuple[str, ConnectedTool]]:
        """Tools of all toolsets, each with its toolset's name, in the order of the toolsets' names."""


class ToolsetWriter(Protocol):
    """Changes toolsets inside one transaction, which the caller commits."""

    async def add(self, toolset: StoredToolset, created_by: str, *, most: int) -> None:
        """Raises ``Conflict`` when the name is taken or the company has as many as it may have."""

    async def lock(self, company_id: str, name: str) -> StoredToolset | None:
        """Locks the toolset until the end of the transaction."""

    async def save(self, before: StoredToolset, after: StoredToolset, changed_by: str) -> None:
        """Stores a locked toolset's new state, and a new version when the number is another."""

    async def delete(self, toolset: StoredToolset, now: datetime) -> None:
        """Removes a locked toolset and its versions."""


class SecretReader(Protocol):
    """Reads a company's secrets; deleted ones are not there."""

    async def get(self, company_id: str, name: str) -> StoredSecret | None: ...

    async def page(self, company_id: str, *, limit: int, offset: int, cursor: str | None = None) -> Page[StoredSecret]:
        """By name."""

    async def names(self, company_id: str) -> frozenset[str]: ...

    async def ciphertexts(self, company_id: str, names: Sequence[str]) -> Mapping[str, str]:
        """Base64 of those of the named secrets that exist."""


class SecretWriter(Protocol):
    """Changes secrets inside one transaction, which the caller commits."""

    async def put(
        self, secret_id: str, company_id: str, name: str, ciphertext: bytes, now: datetime, *, most: int
    ) -> StoredSecret:
        """Stores a new secret with this id, or another value of the one that has the name.

        Raises ``Conflict`` when the company has as many as it may have.
        """

    async def delete(self, company_id: str, name: str, now: datetime) -> StoredSecret | None:
        """Removes the ciphertext. None when there is no such secret."""


class ToolsetRuntime(Protocol):
    """The runtime, which alone talks to the targets of toolsets."""

    async def discover(self, toolset: ConnectedToolset, caller: Identity) -> DiscoveredTools:
        """Asks the target for its tools. Raises ``ValidationFailed`` with what is wrong there, or an outage."""

    async def call(self, call: TryToolCall, caller: Identity) -> CallToolReply:
        """Makes one call, at most once."""
