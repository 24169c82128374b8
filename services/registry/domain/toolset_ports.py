"""Ports of toolsets and secrets."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Protocol

from libs.contracts.api.pages import Page
from libs.contracts.api.toolsets import CallToolReply, ConnectedTool, ConnectedToolset, DiscoveredTools, TryToolCall
from libs.contracts.identity import Identity
from services.registry.domain.secret import StoredSecret
from services.registry.domain.toolset import StoredToolset


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
