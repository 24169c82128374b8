"""Tools for the agent loop and for `GET /tools/`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from libs.contracts.identity import Identity
from libs.json_text import without_half_pairs
from services.runtime.domain.conversation import ArtifactRef, Citation, JsonObject
from services.runtime.domain.knowledge import KnowledgeBaseRef

Approval = Literal["never", "always"]
_LISTED: Final = ("name", "description", "parameters", "safe_to_repeat", "timeout_seconds", "approval", "retries")


def object_schema(required: Sequence[str], /, **properties: JsonObject) -> JsonObject:
    """Returns the JSON Schema for an object with these properties and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """The definition of a tool for models. `parameters` is the JSON Schema of the arguments.

    A call to a tool that is `safe_to_repeat` is repeated if a crash lost its outcome, and retried up to `retries` times
    after temporary failures. `timeout_seconds` covers all attempts. `toolset` is empty for a built-in tool.
    """

    name: str
    description: str
    parameters: JsonObject
    safe_to_repeat: bool
    timeout_seconds: float = 30.0
    approval: Approval = "never"
    retries: int = 0
    run_by_client: bool = False
    toolset: str = ""

    def to_json(self) -> JsonObject:
        """Returns the entry for `GET /tools/`."""
        return {name: getattr(self, name) for name in _LISTED}


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The caller, session and turn of a tool call. A repeated call has the same `call_id`."""

    call_id: str
    turn_id: str
    session_id: str
    caller: Identity
    knowledge_bases: tuple[KnowledgeBaseRef, ...] = ()

    @property
    def idempotency_key(self) -> str:
        """A key that is unique to this call and the same for all of its attempts."""
        return f"{self.turn_id}.{self.call_id}" if self.turn_id else self.call_id


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result of a tool call for the model. The turn's caller receives the `warnings`.

    If `cut` is set, the text is only the start of a response that was too large to read.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    warnings: tuple[str, ...] = ()
    cut: bool = False


class ToolFailed(Exception):
    """The tool call failed. The model receives the message, and the turn continues.

    `retry` marks a failure that may be temporary. `retry_after` is the delay in seconds that the target asked for.
    """

    def __init__(self, message: str, *, retry: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.retry_after = retry_after


LONGEST_RESULT: Final = 20_000


def cut_result(text: str, longest: int = LONGEST_RESULT, *, cut: bool = False) -> str:
    """Cuts a result to ``longest`` characters and notes the full length, which is unknown if it was already `cut`."""
    # PostgreSQL can't store NUL or unpaired surrogates in text, and the model must see the text that is stored.
    text = without_half_pairs(text).replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if cut:
        return f"{text[:longest]}\n[truncated: more than {len(text)} characters in total]"
    return text if len(text) <= longest else f"{text[:longest]}\n[truncated: {len(text)} characters in total]"


class Tool(Protocol):
    @property
    def definition(self) -> ToolDefinition: ...

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        """Calls the tool. Raises ToolFailed with a message for the model. The call may be cancelled at its timeout."""


@dataclass(frozen=True, slots=True)
class RedefinedTool:
    """A tool whose definition is overridden, for example by the agent's policies."""

    tool: Tool
    definition: ToolDefinition

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        return await self.tool.call(arguments, context)


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that the turn's caller runs while the turn waits for the result."""

    definition: ToolDefinition

    async def call(self, _arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        raise ToolFailed(f"{self.definition.name} runs in the client, so the service can't call it.")


@dataclass(frozen=True, slots=True)
class ToolsetVersion:
    name: str
    version: int


class Toolbox(dict[str, Tool]):
    """Tools by name, in the catalog's order."""

    def __init__(self, *tools: Tool) -> None:
        super().__init__((tool.definition.name, tool) for tool in tools)

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self.values())

    def to_json(self) -> list[JsonObject]:
        """Returns the list in the body of `GET /tools/`."""
        return [definition.to_json() for definition in self.definitions]


class TurnTools(Toolbox):
    """The tools of a turn, in the order in which the model sees them. If tools share a name, the first one is used.

    `warnings` mention the agent's tools that aren't available. `toolsets` contains the versions of its toolsets.
    """

    def __init__(
        self, tools: Iterable[Tool] = (), *, warnings: Sequence[str] = (), toolsets: Sequence[ToolsetVersion] = ()
    ) -> None:
        first: dict[str, Tool] = {}
        for tool in tools:
            first.setdefault(tool.definition.name, tool)
        super().__init__(*first.values())
        self.warnings = tuple(warnings)
        self.toolsets = tuple(toolsets)
