"""Tools as the agent loop and `GET /tools/` see them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from libs.contracts.identity import Identity
from services.runtime.domain.conversation import ArtifactRef, Citation, JsonObject
from services.runtime.domain.knowledge import KnowledgeBaseRef


def object_schema(required: Sequence[str], /, **properties: JsonObject) -> JsonObject:
    """The JSON schema of an object with no other properties."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """Description of a tool for models.

    `parameters` is the JSON schema of the arguments; arguments are checked against it before the tool is
    called. `safe_to_repeat`: a second call with the same arguments does no harm, so a call whose outcome a
    crash swallowed is simply made again.
    """

    name: str
    description: str
    parameters: JsonObject
    safe_to_repeat: bool
    timeout_seconds: float = 30.0

    def to_json(self) -> JsonObject:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """Caller and place of a call. `call_id` is the same when a call is repeated: the idempotency key."""

    call_id: str
    turn_id: str
    session_id: str
    caller: Identity
    knowledge_bases: tuple[KnowledgeBaseRef, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result for the model. `warnings` also go to the caller, with the reply."""

    text: str
    citations: tuple[Citation, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    warnings: tuple[str, ...] = ()


class ToolFailed(Exception):
    """The call failed; the message goes to the model and the turn goes on."""


class Tool(Protocol):
    @property
    def definition(self) -> ToolDefinition: ...

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        """Raises ToolFailed with a message fit for the model. May be cancelled at its timeout."""


class Toolbox(Mapping[str, Tool]):
    """The tools of this runtime by name, in the order in which the catalogue lists them."""

    def __init__(self, *tools: Tool) -> None:
        self._tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.definition.name in self._tools:
                raise ValueError(f"two tools named {tool.definition.name!r}")
            self._tools[tool.definition.name] = tool

    def __getitem__(self, name: str) -> Tool:
        return self._tools[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)

    def to_json(self) -> list[JsonObject]:
        """The body's list for `GET /tools/`."""
        return [tool.definition.to_json() for tool in self._tools.values()]
