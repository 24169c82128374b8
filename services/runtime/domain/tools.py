"""Tools as the agent loop and `GET /tools/` see them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from libs.contracts.identity import Identity
from libs.json_text import without_half_pairs
from services.runtime.domain.conversation import ArtifactRef, Citation, JsonObject
from services.runtime.domain.knowledge import KnowledgeBaseRef

Approval = Literal["never", "always"]


def object_schema(required: Sequence[str], /, **properties: JsonObject) -> JsonObject:
    """The JSON schema of an object with no other properties."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "properties": properties, **needed, "additionalProperties": False}


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """Description of a tool for models.

    `parameters` is the JSON schema of the arguments; arguments are checked against it before the tool is
    called. `safe_to_repeat`: a second call with the same arguments does no harm, so a call whose outcome a
    crash swallowed is simply made again. `retries`: repeats of a safe call after failures that may pass.
    `timeout_seconds` is for all tries together. `run_by_client`: the caller of the turn makes the call. `toolset`:
    where the tool is from, empty for one that is built in.
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
        """The entry of `GET /tools/`."""
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
    """Caller and place of a call; `call_id` is the same when a call is repeated."""

    call_id: str
    turn_id: str
    session_id: str
    caller: Identity
    knowledge_bases: tuple[KnowledgeBaseRef, ...] = ()

    @property
    def idempotency_key(self) -> str:
        """The same for every try of this call, and for no other call. One outside of turns has an id of its own."""
        return f"{self.turn_id}.{self.call_id}" if self.turn_id else self.call_id


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The result for the model. `warnings` also go to the caller, with the reply.

    `cut`: the text is the beginning of an answer that was too large to be read.
    """

    text: str
    citations: tuple[Citation, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    warnings: tuple[str, ...] = ()
    cut: bool = False


class ToolFailed(Exception):
    """The call failed; the message goes to the model and the turn goes on.

    `retry`: the failure may pass (connection error, time-out, 429, 5xx), so that a call that is safe to repeat is made
    again. `retry_after`: the wait in seconds that the target asked for.
    """

    def __init__(self, message: str, *, retry: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry = retry
        self.retry_after = retry_after


LONGEST_RESULT: Final = 20_000


def cut_result(text: str, longest: int = LONGEST_RESULT, *, cut: bool = False) -> str:
    """A result as a model is given it: at most so many characters, and how many there were.

    `cut`: the text itself is the beginning of a longer one.
    """
    # PostgreSQL's text has no NUL and no half of a pair; what a model is given and what is stored must say the same.
    text = without_half_pairs(text).replace("\x00", "\N{REPLACEMENT CHARACTER}")
    if cut:
        return f"{text[:longest]}\n[cut: more than {len(text)} characters in all]"
    return text if len(text) <= longest else f"{text[:longest]}\n[cut: {len(text)} characters in all]"


class Tool(Protocol):
    @property
    def definition(self) -> ToolDefinition: ...

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        """Raises ToolFailed with a message fit for the model. May be cancelled at its timeout."""


@dataclass(frozen=True, slots=True)
class RedefinedTool:
    """A tool with another definition, such as one that policies were laid over."""

    tool: Tool
    definition: ToolDefinition

    async def call(self, arguments: JsonObject, context: ToolContext, /) -> ToolOutput:
        return await self.tool.call(arguments, context)


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool that the caller of the turn runs. The turn waits for its result; it is never called here."""

    definition: ToolDefinition

    async def call(self, _arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        raise ToolFailed(f"{self.definition.name} is run by the client; it has no implementation here.")


@dataclass(frozen=True, slots=True)
class ToolsetVersion:
    name: str
    version: int


class Toolbox(Mapping[str, Tool]):
    """Tools by name, in the order in which the catalogue lists them."""

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
        """The body's list for `GET /tools/`."""
        return [definition.to_json() for definition in self.definitions]


class TurnTools(Toolbox):
    """The tools of one turn, in the order in which the model is shown them; the first of a name counts.

    `warnings` are about tools that the agent has and the turn does not. `toolsets`: the versions of its toolsets.
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
