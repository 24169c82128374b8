"""Toolsets, whose tools come from outside: their versions, and the ports that find and connect them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identity import Identity
from libs.contracts.resources.toolsets import ConnectedTool, ConnectedToolset, DiscoveredTools, ToolsetType
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolOutput, ToolsetVersion

# One dict: compiled schemas are known by theirs.
_ANY_ARGUMENTS: Final[JsonObject] = {"type": "object"}


@dataclass(frozen=True, slots=True, eq=False)
class Toolset:
    """One version of a company's toolset; equal only to itself.

    `config` has the fields of its type, see libs/contracts/resources/toolsets.py. `secrets`: ciphertexts in base64 of
    the secrets that its headers refer to, by name; one that does not exist is missing.
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
        """The definition for models, under the tool's full name `<toolset>.<tool>`."""
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
    """The toolset's description is wrong, or its target does not answer as its type asks for."""

    @classmethod
    def at(cls, field: str, message: str) -> "ToolsetUnusable":
        """The error about an address of the toolset, by the name of its field."""
        hint = "an operator can allow its network in AES_OUTBOUND_NETWORKS" if "not public" in message else None
        return cls(message, details=[ErrorDetail(loc=[field], type="unusable", message=message, hint=hint)])


class ToolsetConnector(Protocol):
    """Speaks to the targets of toolsets of one type."""

    async def discover(self, toolset: Toolset, /) -> DiscoveredTools:
        """The tools that the target offers or the description compiles to, with the defaults of the type.

        Those that cannot be used are left out and named, unless the toolset asks for them by name. Raises
        ToolsetUnusable. May be cancelled at its caller's time limit.
        """

    async def call(
        self, toolset: Toolset, tool: ConnectedTool, arguments: JsonObject, context: ToolContext, /
    ) -> ToolOutput:
        """Calls one of `toolset.tools`. As `Tool.call`."""


class ToolsetTool:
    """A Tool of a toolset, called through the connector of its type."""

    def __init__(self, connector: ToolsetConnector, toolset: Toolset, tool: ConnectedTool) -> None:
        self.definition: ToolDefinition = toolset.definition(tool)
        self._connector = connector
        self._toolset = toolset
        self._tool = tool

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        return await self._connector.call(self._toolset, self._tool, arguments, context)


def connected_tools(connector: ToolsetConnector, toolset: Toolset) -> list[ToolsetTool]:
    return [ToolsetTool(connector, toolset, tool) for tool in toolset.tools]


class ToolsetCatalogue(Protocol):
    async def toolsets(
        self, names: Sequence[str], caller: Identity, versions: Sequence[ToolsetVersion] = (), /
    ) -> Sequence[Toolset]:
        """The company's toolsets of these names that exist, in the order of `names`.

        `versions` names the version of some of them; of the others it is the newest. The same object stands for the
        same version, so that what was made of it may be kept. Raises ServiceUnavailable when they cannot be read.
        """
