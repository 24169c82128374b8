"""Toolsets of external tools."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import ConnectedTool, ConnectedToolset, DiscoveredTools, ToolsetType
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolOutput, ToolsetVersion

# Shared, since compiled schemas are cached by identity.
_ANY_ARGUMENTS: Final[JsonObject] = {"type": "object"}
RESERVED_HEADERS: Final = frozenset({
    "accept-encoding", "connection", "content-length", "expect", "host", "idempotency-key", "keep-alive",
    "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade",
})  # fmt: skip
"""Headers that a toolset can't set, because the connection or the call sets them."""


@dataclass(frozen=True, slots=True, eq=False)
class Toolset:
    """A version of a company's toolset, compared by identity.

    `config` contains the fields of the toolset's type. `secrets` maps the names of secrets to Base64 ciphertexts.
    """

    company_id: str
    name: str
    version: int
    type: ToolsetType
    config: JsonObject
    tools: tuple[ConnectedTool, ...]
    secrets: Mapping[str, str]

    @classmethod
    def from_contract(cls, company_id: str, toolset: ConnectedToolset) -> "Toolset":
        return cls(
            company_id,
            toolset.name,
            toolset.version,
            toolset.type,
            toolset.config,
            tuple(toolset.tools),
            toolset.secrets,
        )

    def definition(self, tool: ConnectedTool) -> ToolDefinition:
        """Returns the tool's definition for models, with the full name `<toolset>.<tool>`."""
        return ToolDefinition(
            name=f"{self.name}.{tool.name}",
            description=tool.description,
            parameters=tool.parameters or _ANY_ARGUMENTS,
            safe_to_repeat=tool.safe_to_repeat,
            timeout_seconds=tool.timeout_seconds,
            approval=tool.approval,
            retries=tool.retries,
            toolset=self.name,
        )


class ToolsetUnusable(ValidationFailed):
    """The toolset's description is invalid, or its target doesn't behave as the toolset's type requires."""

    @classmethod
    def at(cls, field: str, message: str) -> "ToolsetUnusable":
        """Creates an error about the address in the toolset's field ``field``."""
        hint = "ask an operator to allow the network in AES_OUTBOUND_NETWORKS" if "isn't public" in message else None
        return cls(message, details=[ErrorDetail(loc=[field], type="unusable", message=message, hint=hint)])


class ToolsetConnector(Protocol):
    """Connects to the targets of one toolset type."""

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        """Returns the target's tools. Raises ToolsetUnusable if the toolset names a tool that can't be used."""

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        """Calls one of `toolset.tools`, like `Tool.call`."""


@dataclass(frozen=True, slots=True)
class ToolsetTool:
    """A toolset's tool, which is called through the connector for the toolset's type."""

    definition: ToolDefinition
    connector: ToolsetConnector
    toolset: Toolset
    tool: ConnectedTool

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        return await self.connector.call(self.toolset, self.tool, arguments, context)


def connected_tools(connector: ToolsetConnector, toolset: Toolset) -> list[ToolsetTool]:
    return [ToolsetTool(toolset.definition(tool), connector, toolset, tool) for tool in toolset.tools]


class ToolsetCatalogue(Protocol):
    async def toolsets(
        self, names: Sequence[str], caller: Identity, versions: Sequence[ToolsetVersion] = (), /
    ) -> Sequence[Toolset]:
        """Returns the existing toolsets in the order of `names`. `versions` may select older versions.

        The same version is always the same object, so that derived values can be cached. Raises ServiceUnavailable.
        """
