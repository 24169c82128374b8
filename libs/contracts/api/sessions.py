"""Sessions, content blocks, turns and messages."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from libs.contracts.api.agents import AgentConfiguration, ClientTools, JsonObject, StrictModel
from libs.contracts.api.pages import ListPage
from libs.contracts.errors import ErrorInfo
from libs.contracts.identifiers import CORRELATION_ID_PATTERN
from libs.contracts.timestamps import Timestamp

TurnStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
ActionKind = Literal["approval", "tool_result"]
SessionStatus = Literal["active", "deleting"]


class AgentReference(StrictModel):
    """A stored agent named by exactly one of its id and its key (``POST /sessions/``)."""

    agent_id: str | None = Field(default=None, min_length=1, max_length=200)
    agent_key: str | None = Field(default=None, min_length=1, max_length=300)


class ForkSessionBody(StrictModel):
    """``POST /sessions/{session_id}/fork/``. Without a turn, of which it takes one, the whole history is copied."""

    up_to_turn_id: str | None = Field(default=None, min_length=1, max_length=200)
    before_turn_id: str | None = Field(default=None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _names_one_turn(self) -> "ForkSessionBody":
        if self.up_to_turn_id is not None and self.before_turn_id is not None:
            raise ValueError("a fork goes up to a turn or ends before one, not both")
        return self


class SessionCreatedReply(BaseModel):
    success: bool = True
    session_id: str
    config_hash: str


def _is_none(value: object) -> bool:
    return value is None


class Session(BaseModel):
    """A conversation with the agent it was created with. ``forked_from``: the session whose history it began with.

    ``metadata``: pairs that another protocol's client gave it; left out when there are none.
    """

    session_id: str
    config_hash: str
    created_at: Timestamp
    status: SessionStatus
    agent_config: dict[str, Any]
    agent_id: str | None = None
    owner_id: str = ""
    forked_from: str | None = None
    metadata: dict[str, str] | None = Field(default=None, exclude_if=_is_none)


class SessionPage(ListPage):
    sessions: list[Session]


class TextBlock(StrictModel):
    type: Literal["text"]
    text: Annotated[str, Field(min_length=1)]


ImageDetail = Literal["auto", "low", "high", "original"]
"""The resolution at which a model looks at an image. Providers without such a choice ignore it."""


class ImageUrl(StrictModel):
    url: Annotated[str, Field(min_length=1, max_length=4000)]
    detail: ImageDetail | None = Field(default=None, exclude_if=_is_none)


class ImageUrlBlock(StrictModel):
    """An image on the web; ``data:`` URLs are refused."""

    type: Literal["image_url"]
    image_url: ImageUrl


class ArtifactSource(StrictModel):
    artifact_id: Annotated[str, Field(min_length=1, max_length=200)]


class FileBlock(StrictModel):
    """An artifact of this session, by id."""

    type: Literal["file"]
    source: ArtifactSource
    detail: ImageDetail | None = Field(default=None, exclude_if=_is_none)


class ImageBlock(StrictModel):
    """An image artifact of this session, by the URL returned on upload."""

    type: Literal["image"]
    url: Annotated[str, Field(min_length=1, max_length=4000)]
    detail: ImageDetail | None = Field(default=None, exclude_if=_is_none)


ContentBlock = Annotated[TextBlock | ImageUrlBlock | FileBlock | ImageBlock, Field(discriminator="type")]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("the text is nothing but white space")
    return text


def _no_blank_blocks(blocks: list[ContentBlock]) -> list[ContentBlock]:
    for block in blocks:
        if isinstance(block, TextBlock):
            _not_blank(block.text)
    return blocks


MessageText = Annotated[str, Field(min_length=1, json_schema_extra={"pattern": r"\S"}), AfterValidator(_not_blank)]
_MOST_BLOCKS: Final = Field(min_length=1, max_length=100)
MessageBlocks = Annotated[list[ContentBlock], _MOST_BLOCKS, AfterValidator(_no_blank_blocks)]


class NamedTool(StrictModel):
    """A tool that the model has to call."""

    name: Annotated[str, Field(min_length=1, max_length=200)]


ToolChoice = Literal["auto", "none", "required"] | NamedTool
StopText = Annotated[str, Field(min_length=1, max_length=200)]
Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=8000)]],
    Field(max_length=32),
]
"""Pairs of the caller's own, which are kept and returned."""


class TurnOptions(StrictModel):
    """Settings of one turn, which go before the agent's own. ``instructions`` are added to the agent's.

    ``stop``: the model's answer ends before the first of these texts. ``tool_choice``: whether tools may be called, or
    must be, until the first call is made. ``output_schema``: JSON Schema of the reply's ``output``. ``metadata``
    changes nothing: it is kept with the turn.
    """

    instructions: str | None = Field(default=None, min_length=1, max_length=100_000)
    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    stop: list[StopText] | None = Field(default=None, min_length=1, max_length=4)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    client_tools: ClientTools | None = None
    output_schema: JsonObject | None = None
    metadata: Metadata | None = None

    @property
    def change_something(self) -> bool:
        """Whether the agent is to do anything in another way."""
        return any(value is not None for name, value in self if name != "metadata")


class ExecuteBody(StrictModel):
    """``POST /runtime/{session_id}/execute/``: a text or a list of blocks.

    Models refuse texts of white space only.
    """

    content: MessageText | MessageBlocks
    correlation_id: str | None = Field(default=None, pattern=CORRELATION_ID_PATTERN)
    options: TurnOptions | None = None


class WireModel(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Usage(WireModel):
    """Tokens, calls and time that a turn took. ``seconds`` of work on it, without the time that it waited.

    ``cost`` is an exact decimal at the price that its model had then; null without a price.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0
    seconds: float = 0.0
    cost: str | None = None


class Attribution(WireModel):
    """The agent and model of a turn, and the user and key that began it."""

    agent_id: str | None = None
    model: str = ""
    user_id: str = ""
    key_id: str = ""


class ToolCallRecord(WireModel):
    """A tool call of a turn.

    ``status`` is ``completed``, ``failed``, ``unknown`` (outcome lost in a crash), or ``requested`` for a call that the
    caller runs, with which the turn has ended.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    status: str
    output: str | None = None


class Citation(WireModel):
    """A passage that a reply rests on."""

    knowledge_base_id: str | None = None
    knowledge_base_name: str | None = None
    file_id: str | None = None
    file_name: str | None = None
    artifact_id: str | None = None
    page: int | None = None
    row: int | None = None
    passage: str
    score: float | None = None


FinishReason = Literal["stop", "length", "content_filter", "tool_calls"]


def _is_stop(reason: str) -> bool:
    return reason == "stop"


class Reply(WireModel):
    """``output``: the value that ``content`` is the JSON of, when the turn has an output schema; else left out."""

    content: str
    output: Any = Field(default=None, exclude_if=_is_none)
    tool_calls: list[ToolCallRecord] = []
    citations: list[Citation] = []
    artifacts: list[dict[str, Any]] = []


class ExecuteReply(Attribution):
    """The answer to execute. ``message_id`` is the assistant's message, ``turn_id`` the execution itself.

    ``finish_reason`` is absent when the model finished by itself. It is ``length`` for a truncated reply,
    ``content_filter``, or ``tool_calls`` when the turn ended with calls for the caller to run.
    """

    success: bool = True
    message_id: str
    response: Reply
    correlation_id: str
    session_id: str
    turn_id: str
    user_message_id: str
    usage: Usage
    config_hash: str
    warnings: list[str] = []
    finish_reason: FinishReason = Field(default="stop", exclude_if=_is_stop)


class RequestedToolCall(WireModel):
    """A tool call that the model asked for and that has not been made."""

    id: str
    name: str
    arguments: dict[str, Any]


class RequiredAction(WireModel):
    """An answer from outside that a waiting turn needs before it goes on.

    ``approval``: a person decides whether the call is made, with exactly these arguments. ``tool_result``: the caller
    runs the tool and gives its result. At ``expires_at`` the call fails and the turn goes on.
    """

    action_id: str
    kind: ActionKind
    tool_call: RequestedToolCall
    expires_at: Timestamp


class BlockedBy(WireModel):
    """The waiting turn that a queued one comes after, and the answers that it needs."""

    turn_id: str
    required_actions: list[RequiredAction] = []


class OpenAction(RequiredAction):
    """An action of ``GET /actions/``, with the turn that waits for it."""

    session_id: str
    turn_id: str
    created_at: Timestamp


class ActionPage(WireModel, ListPage):
    actions: list[OpenAction]


class SaidFile(FileBlock):
    """Internal: a file of the session in a message of its history, with what its artifact's record says of it."""

    name: str
    content_type: str
    processing_strategy: str


class HistoryMessage(WireModel):
    """A message that a session begins with.

    An assistant's message may ask for ``tool_calls``; a tool's message is the result of ``tool_call_id``, a call that a
    message before it asks for.
    """

    role: Literal["user", "assistant", "tool"]
    content: str | list[Annotated[TextBlock | ImageUrlBlock | SaidFile, Field(discriminator="type")]]
    tool_calls: list[RequestedToolCall] = []
    tool_call_id: str | None = None


class GivenToolCall(StrictModel):
    """A tool call of a given message. ``id``: unique in the conversation."""

    id: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200)
    arguments: JsonObject


class GivenMessage(StrictModel):
    """A message of a conversation that took place elsewhere.

    An assistant's message may have ``tool_calls``; a tool's message is the result of the call ``tool_call_id`` of a
    message before it.
    """

    role: Literal["user", "assistant", "tool"]
    content: str | Annotated[list[Annotated[TextBlock | ImageUrlBlock, Field(discriminator="type")]], _MOST_BLOCKS]
    tool_calls: Annotated[list[GivenToolCall], Field(max_length=128)] = []
    tool_call_id: str | None = Field(default=None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _fits_its_role(self) -> "GivenMessage":
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only messages of the assistant have tool_calls")
        if (self.tool_call_id is None) is (self.role == "tool"):
            raise ValueError("a tool's message has a tool_call_id, and no other has one")
        return self


class GivenHistory(StrictModel):
    """The conversation that a session begins with, oldest message first."""

    messages: list[GivenMessage] = Field(default=[], max_length=2_000)


class ConfiguredSession(AgentConfiguration, GivenHistory):
    """``POST /sessions/`` with an agent of its own."""


class ReferencedSession(AgentReference, GivenHistory):
    """``POST /sessions/`` with a stored agent, named by exactly one of its id and its key."""


CreateSessionBody = ConfiguredSession | ReferencedSession


class ResolveActionBody(StrictModel):
    """``POST …/actions/{action_id}/``: exactly one of ``decision``, ``output`` and ``error``.

    ``decision`` answers an approval, with an optional ``reason`` for a denial; ``output`` (a text or any JSON, null as
    well) and ``error`` answer a call that the caller ran.
    """

    decision: Literal["approve", "deny"] | None = None
    reason: str | None = Field(default=None, max_length=10_000)
    output: Any = None
    error: str | None = Field(default=None, min_length=1)

    @model_validator(mode="after")
    def _is_one_answer(self) -> "ResolveActionBody":
        given = [name for name in ("decision", "output", "error") if getattr(self, name) is not None]
        if len(given) > 1 or not (given or "output" in self.model_fields_set):
            raise ValueError("give exactly one of decision, output and error")
        if self.reason is not None and self.decision != "deny":
            raise ValueError("a reason is for a denial")
        return self


class TurnAccepted(WireModel):
    """The 202 body: the turn goes on; ``Location`` names it. ``required_actions``: what a waiting turn needs.

    ``blocked_by``: the turn of its session that a queued one waits for, when that one waits for answers itself.
    """

    success: bool = True
    turn_id: str
    session_id: str
    status: TurnStatus
    correlation_id: str
    required_actions: list[RequiredAction] = []
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=_is_none)


class TurnToolset(WireModel):
    """The version of a toolset that a turn works with."""

    name: str
    version: int


class Turn(WireModel):
    """A turn's state; ``reply`` once completed, ``error`` once failed, ``required_actions`` while it is waiting.

    ``blocked_by`` while it is queued behind a waiting turn.
    """

    turn_id: str
    session_id: str
    status: TurnStatus
    attempt: int
    position: int
    correlation_id: str
    user_message_id: str
    message_id: str | None = None
    usage: Usage | None = None
    reply: ExecuteReply | None = None
    error: ErrorInfo | None = None
    required_actions: list[RequiredAction] = []
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=_is_none)
    toolsets: list[TurnToolset] = Field(default=[], exclude_if=lambda toolsets: not toolsets)
    """Toolsets whose tools the agent has; left out when there are none, and before the first step is recorded."""
    options: dict[str, Any] | None = Field(default=None, exclude_if=_is_none)
    """Options as they were given (``TurnOptions``); left out when there were none."""
    created_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


class TurnPage(ListPage):
    """Internal: turns with an agent."""

    turns: list[Turn]


class WatchedTurn(WireModel):
    """Internal: a turn whose text somebody follows. ``sequence`` is that of its newest event.

    ``texts``: the texts of its recorded steps that asked for tools, by step; empty ones are left out.
    """

    status: TurnStatus
    sequence: int
    texts: dict[int, str] = {}


class Message(WireModel):
    """A message of the history: ``content`` is the text blocks joined, ``content_blocks`` the blocks themselves.

    A ``tool``'s message is the result of a call, in histories that come from elsewhere; its ``content`` is the output.
    """

    id: str
    role: Literal["user", "assistant", "tool"]
    content: str
    timestamp: Timestamp
    content_blocks: list[dict[str, Any]] = []
    turn_id: str | None = None


class MessagePage(WireModel, ListPage):
    messages: list[Message]
