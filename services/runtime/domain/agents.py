"""The types of an agent's turn: configuration, task, journal and reply."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Self

from libs.contracts.identity import Identity
from libs.contracts.resources.turns import ModelSettings, TurnOptions, TurnRequest
from services.runtime.domain.conversation import (
    ArtifactRef,
    Citation,
    JsonObject,
    Message,
    ToolCall,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.knowledge import KnowledgeBaseRef
from services.runtime.domain.models import DEFAULT_MODEL
from services.runtime.domain.steps import Step
from services.runtime.domain.tools import Approval, ToolDefinition, ToolsetVersion, TurnTools
from services.runtime.domain.waits import NewWait


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """An agent's policy for some of its tools. None keeps the tool's own setting."""

    approval: Approval | None = None
    timeout_seconds: float | None = None
    retries: int | None = None


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """The parts of a session's agent configuration that the agent loop needs."""

    agent_type: str
    system_prompt: str = ""
    model: str = DEFAULT_MODEL
    settings: ModelSettings = field(default_factory=ModelSettings)
    max_steps: int | None = None
    tools: tuple[str, ...] = ()
    knowledge_bases: tuple[KnowledgeBaseRef, ...] = ()
    tool_policies: Mapping[str, ToolPolicy] = field(default_factory=dict)
    client_tools: tuple[ToolDefinition, ...] = ()

    @property
    def calls_tools(self) -> bool:
        """Whether the agent alternates between model and tool calls. An `llm_agent` only does so with client tools."""
        return self.agent_type == "react_agent" or bool(self.client_tools)

    def with_options(self, options: TurnOptions | None) -> Self:
        if options is None:
            return self
        given: dict[str, Any] = {"settings": self.settings.model_copy(update=options.given())}
        if options.instructions is not None:
            given["system_prompt"] = f"{self.system_prompt}\n\n{options.instructions}".lstrip()
        if options.client_tools is not None:
            given["client_tools"] = tuple(client_tool(tool.model_dump()) for tool in options.client_tools)
        return replace(self, **given)

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Creates a specification from a normalized configuration, which the registry has validated."""
        llm = config.get("llm_config") or {}
        return cls(
            agent_type=config["agent_type"],
            system_prompt=config.get("system_prompt") or "",
            model=llm.get("model") or DEFAULT_MODEL,
            # Not validated again, since a valid configuration stays valid. Names that aren't settings have no effect.
            settings=ModelSettings.model_construct(**llm, output_schema=config.get("output_schema")),
            max_steps=llm.get("max_steps"),
            tools=tuple(config.get("tools") or ()),
            knowledge_bases=tuple(_knowledge_base(item) for item in config.get("knowledge_bases") or ()),
            tool_policies={name: _policy(item) for name, item in (config.get("tool_policies") or {}).items()},
            client_tools=tuple(client_tool(item) for item in config.get("client_tools") or ()),
        )


def _knowledge_base(item: str | Mapping[str, Any]) -> KnowledgeBaseRef:
    if isinstance(item, str):
        return KnowledgeBaseRef(item)
    return KnowledgeBaseRef(item["id"], item.get("top_k"), item.get("mode"), item.get("min_score"))


def _policy(item: Mapping[str, Any]) -> ToolPolicy:
    return ToolPolicy(item.get("approval"), item.get("timeout_seconds"), item.get("retries"))


def client_tool(item: Mapping[str, Any]) -> ToolDefinition:
    """Parses an entry of ``client_tools``."""
    return ToolDefinition(
        name=item["name"],
        description=item.get("description") or "",
        parameters=item.get("parameters") or {"type": "object"},
        safe_to_repeat=False,
        run_by_client=True,
    )


@dataclass(frozen=True, slots=True)
class AgentTask:
    """The input of a turn. `history` precedes `question`.

    `answered` are the client tool calls that ended earlier turns, and their results.
    """

    turn_id: str
    session_id: str
    caller: Identity
    agent: AgentSpec
    history: Sequence[Message]
    question: UserMessage
    answered: Sequence[Message] = ()
    request: TurnRequest = field(default_factory=TurnRequest)


class TurnLost(Exception):
    """The worker has lost the turn, because it was fenced off, cancelled or timed out. Stop, and record nothing."""


class TurnJournal(Protocol):
    """Records the loop's steps, each in a transaction that checks the turn's fencing token.

    Asynchronous methods raise TurnLost. A final answer is only recorded here if it doesn't match the output schema.
    """

    @property
    def steps(self) -> Sequence[Step]:
        """The turn's recorded steps, in order. The loop resumes after those of earlier executions."""

    @property
    def allowed_calls(self) -> Mapping[str, str]:
        """The hashes of the tool calls that a person has approved, by call ID."""

    @property
    def after_wait(self) -> bool:
        """Whether the turn resumes from a wait. If so, a call without a result can't have started."""

    @property
    def wants_text(self) -> bool:
        """Whether a reader streams this turn's text. Read it before every model call."""

    async def record(self, step: Step) -> None:
        """Records a step with its events. Results of parallel calls are recorded concurrently.

        A recorded model answer marks its calls as started, so it's recorded before any of them is made.
        """

    def output_text(self, piece: str, step: int) -> None:
        """Streams a piece of text from the model call `step`. Pieces stay in order, but may be lost. Never blocks."""


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A tool call that the turn has made."""

    call: ToolCall
    result: ToolResult


@dataclass(frozen=True, slots=True)
class AgentReply:
    """The turn's reply. `usage` sums up all `steps` model calls, including those of earlier attempts.

    `requested` are the calls that the caller must run. `toolsets` is only set for a turn with one step.
    """

    text: str
    finish_reason: str
    tool_calls: tuple[MadeCall, ...]
    citations: tuple[Citation, ...]
    artifacts: tuple[ArtifactRef, ...]
    usage: Usage
    steps: int
    warnings: tuple[str, ...] = ()
    output: Any = None
    toolsets: tuple[ToolsetVersion, ...] = ()
    requested: tuple[ToolCall, ...] = ()

    def to_json(self) -> JsonObject:
        """Returns the `response` object of a completed turn."""
        made = [(each.call, each.result.status, each.result.output) for each in self.tool_calls]
        calls = [*made, *((call, "requested", None) for call in self.requested)]
        return {
            **({} if self.output is None else {"output": self.output}),
            "content": self.text,
            "tool_calls": [
                {"id": call.id, "name": call.name, "arguments": call.arguments, "status": status, "output": output}
                for call, status, output in calls
            ],
            "citations": [citation.to_json() for citation in self.citations],
            "artifacts": [asdict(artifact) for artifact in self.artifacts],
        }


class ToolSource(Protocol):
    async def for_turn(
        self, task: AgentTask, *, any_files: bool = False, toolsets: Sequence[ToolsetVersion] | None = None
    ) -> TurnTools:
        """Selects the tools for the turn's model. A resumed turn keeps the versions in `toolsets`.

        `any_files` says whether the session has files. Raises ServiceUnavailable if tools' definitions can't be loaded.
        """


@dataclass(frozen=True, slots=True)
class TurnWaits:
    """The turn is suspended until these waits are resolved. The results of its other calls are recorded."""

    waits: tuple[NewWait, ...]


class AgentLoop(Protocol):
    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply | TurnWaits:
        """Runs the turn, which can be cancelled at any await. Raises TurnLost, or an error that fails the turn."""
