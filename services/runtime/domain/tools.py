"""Tools for the agent loop and `GET /tools/`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from libs.contracts.identity import Identity
from libs.json_text import without_half_pairs
from services.runtime.domain.conversation import ArtifactRef, Citation, JsonObject
from services.runtime.domain.knowledge import KnowledgeBaseRef

Approval = Literal["never", "always"]


def object_schema(required: Sequence[str], /, **properties: JsonObject) -> JsonObject:
    """The JSON schema of an object without other properties."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """Describes a tool to models.

    `parameters` is the JSON schema of the arguments, which are validated before each call. `safe_to_repeat`: a second
    call with the same arguments does no harm, so a call whose outcome a crash lost is made again. `retries`: repeats of
    a safe call after temporary failures. `timeout_seconds` covers all attempts. `run_by_client`: the turn's caller runs
    the call. `toolset`: the tool's source, empty for a built-in one.
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
        """The entry for `GET /tools/`."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
            "safe_to_repeat": self.safe_to_repeat,
            "timeout_seconds": self.timeout_seconds,
            "approval": self.approval,
            "retries": self.retries,
        }


@dataclass(frozen=True, slots=True)
class ToolContext:
    """The caller, session and turn of a call; `call_id` stays the same when a call is repeated."""

    call_id: str
    turn_id: str
    session_id: str
    caller: Identity
    knowledge_bases: tuple[KnowledgeBaseRef, ...] = ()

    @property
    def idempotency_key(self) -> str:
        """Identical for all attempts of this call and unique to it. A call outside of turns has its own id."""
        return f"{self.turn_id}.{self.call_id}" if self.turn_id else self.call_id


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result for the model. `warnings` also go to the caller, with the reply.

    `cut`: the text is only the start of an answer that was too large to read.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    warnings: tuple[str, ...] = ()
    cut: bool = False


class ToolFailed(Exception):
    """The call failed; the model gets the message and the turn continues.

    `retry`: the failure may be temporary (connection error, timeout, 429, 5xx), so a safe call is made again.
    `retry_after`: the seconds to wait, as requested by the target.
    """

    def __init__(self, message: str, *, retry: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.retry_after = retry_after


LONGEST_RESULT: Final = 20_000


def cut_result(text: str, longest: int = LONGEST_RESULT, *, cut: bool = False) -> str:
    """Cuts a result to ``longest`` characters for the model, and states its full length.

    `cut`: the text itself is only the start of a longer one.
    """
    # PostgreSQL's text can't store NUL or unpaired surrogates. The model must see the same text as is stored.
    text = without_half_pairs(text).replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if cut:
        return f"{text[:longest]}\n[cut: more than {len(text)} characters in all]"
    return text if len(text) <= longest else f"{text[:longest]}\n[cut: {len(text)} characters in all]"


class Tool(Protocol):
    @property
    def definition(self) -> ToolDefinition: ...

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        """Raises ToolFailed with a message for the model. May be cancelled at its timeout."""


@dataclass(frozen=True, slots=True)
class RedefinedTool:
    """A tool with an overridden definition, for example by policies."""

    tool: Tool
    definition: ToolDefinition

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        return await self.tool.call(arguments, context)


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that the turn's caller runs. The turn waits for its result; the service never calls it."""

    definition: ToolDefinition

    async def call(self, _arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        raise ToolFailed(f"{self.definition.name} is run by the client; it has no implementation here.")


@dataclass(frozen=True, slots=True)
class ToolsetVersion:
    name: str
    version: int


class Toolbox(Mapping[str, Tool]):
    """Tools by name, in catalogue order."""

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

    @property
    def definitions(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self._tools.values())

    def to_json(self) -> list[JsonObject]:
        """The list in the body of `GET /tools/`."""
        return [definition.to_json() for definition in self.definitions]


class TurnTools(Toolbox):
    """The tools of one turn, in the order shown to the model. The first tool of a name wins.

    `warnings` are about the agent's tools that this turn lacks. `toolsets`: the versions of its toolsets.
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
