"""Turns: a message, the execution of the agent, and its reply.

A turn's ID is the ID of the command that started it. The turn's events have this ID as their subject and causation ID.
"""

import operator
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorInfo
from libs.contracts.identifiers import CORRELATION_ID_PATTERN
from libs.contracts.messages import Command, Event
from libs.contracts.models import JsonObject, StrictModel, WireModel, is_none
from libs.contracts.pages import ListPage
from libs.contracts.replies import Attribution, ExecuteReply, Usage
from libs.contracts.resources.agents import ClientTools
from libs.contracts.resources.messages import (
    ContentBlock,
    HistoryMessage,
    MessageBlocks,
    MessageText,
    RequestedToolCall,
)
from libs.contracts.resources.sessions import SessionBeginning
from libs.contracts.timestamps import Timestamp
from libs.contracts.topics import RUNTIME_DELTAS

TurnStatus = Literal["queued", "running", "waiting", "completed", "failed", "cancelled"]
ActionKind = Literal["approval", "tool_result"]


class NamedTool(StrictModel):
    """The tool that the model must call, by name."""

    name: Annotated[str, Field(min_length=1, max_length=200)]


ToolChoice = Literal["auto", "none", "required"] | NamedTool
StopText = Annotated[str, Field(min_length=1, max_length=200)]
Metadata = Annotated[
    dict[Annotated[str, Field(min_length=1, max_length=64)], Annotated[str, Field(max_length=8000)]],
    Field(max_length=32),
]
"""Custom key-value pairs that are stored and returned with the turn."""


class ModelSettings(StrictModel):
    """Settings of a request to a model. If a setting is None, the model's default applies."""

    temperature: float | None = Field(default=None, ge=0, le=2)
    top_p: float | None = Field(default=None, gt=0, le=1)
    max_tokens: int | None = Field(default=None, ge=1, le=1_000_000)
    stop: list[StopText] | None = Field(default=None, min_length=1, max_length=4)
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    output_schema: JsonObject | None = None

    def given(self) -> dict[str, Any]:
        """Returns the settings that aren't None."""
        return {name: value for name in ModelSettings.model_fields if (value := getattr(self, name)) is not None}

    @property
    def forced_call(self) -> Literal["required"] | NamedTool | None:
        """Returns the tool that the turn must call first, "required" if any tool will do, or None."""
        choice = self.tool_choice
        return choice if choice == "required" or isinstance(choice, NamedTool) else None


class TurnOptions(ModelSettings):
    """Per-turn settings that override the agent's. ``instructions`` are added to the agent's instructions.

    The model's output ends before any of the ``stop`` strings. ``tool_choice`` allows, forbids or requires a tool
    call, and applies until the first call. ``output_schema`` is the JSON Schema of the reply's ``output``. ``metadata``
    is stored with the turn and doesn't affect its execution.
    """

    instructions: str | None = Field(default=None, min_length=1, max_length=100_000)
    client_tools: ClientTools | None = None
    metadata: Metadata | None = None

    @property
    def change_something(self) -> bool:
        """Returns whether any option except ``metadata`` is set."""
        return any(value is not None for name, value in self if name != "metadata")


class ExecuteBody(StrictModel):
    """The body of ``POST /runtime/{session_id}/execute/``. ``content`` is non-blank text or a list of blocks."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "text": {"content": "What is 17 * 23?", "correlation_id": "order-4711"},
        "with options": {
            "content": "Which ferries leave today?",
            "options": {"instructions": "Answer in one sentence.", "temperature": 0, "stop": ["\n\n"]},
        },
        "blocks": {
            "content": [
                {"type": "text", "text": "What is in this picture?"},
                {"type": "image_url", "image_url": {"url": "https://example.com/picture.png"}},
            ]
        },
    }

    content: MessageText | MessageBlocks
    correlation_id: str | None = Field(default=None, pattern=CORRELATION_ID_PATTERN)
    options: TurnOptions | None = None


class RequiredAction(WireModel):
    """An approval or tool result that a waiting turn needs before it can resume.

    For an ``approval``, a user decides whether the call may run with exactly these arguments. For a ``tool_result``,
    the caller runs the tool and returns its result. If the action isn't resolved by ``expires_at``, the call fails and
    the turn resumes.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "an approval": {
            "action_id": "01980f52-4c50-7f58-a061-5e6f7a8b0050",
            "kind": "approval",
            "tool_call": {"id": "call_7Qm2", "name": "desk.cancel_booking", "arguments": {"booking": "F-2041"}},
            "expires_at": "2026-05-05T08:16:21.286754Z",
        }
    }

    action_id: str
    kind: ActionKind
    tool_call: RequestedToolCall
    expires_at: Timestamp


class BlockedBy(WireModel):
    """A waiting turn that blocks a queued turn, and the open actions of the waiting turn."""

    turn_id: str
    required_actions: list[RequiredAction] = []


class TurnAccepted(WireModel):
    """The body of a 202 response. The turn continues in the background. The ``Location`` header is its URL.

    If the turn is waiting, ``required_actions`` are its open actions. If the turn is queued behind a waiting turn,
    ``blocked_by`` is the waiting turn.
    """

    success: bool = True
    turn_id: str
    session_id: str
    status: TurnStatus
    correlation_id: str
    required_actions: list[RequiredAction] = []
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=is_none)


class TurnToolset(WireModel):
    """The version of a toolset that a turn uses."""

    name: str
    version: int


class Turn(WireModel):
    """A turn, with its ``reply`` if the turn completed, or its ``error`` if it failed.

    ``required_actions`` is set while the turn is waiting, and ``blocked_by`` while it's queued behind a waiting turn.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "completed": {
            "turn_id": "01980f52-3b42-7d36-8e4f-3c4d5e6f7a06",
            "session_id": "01980f52-0a31-7c25-9d3e-2b3c4d5e6f05",
            "status": "completed",
            "attempt": 1,
            "position": 0,
            "correlation_id": "ferry-desk-2026-05-04",
            "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07",
            "message_id": "01980f52-4c61-7f58-a061-5e6f7a8b9c08",
            "created_at": "2026-05-04T08:16:10.104451Z",
            "started_at": "2026-05-04T08:16:10.104451Z",
            "finished_at": "2026-05-04T08:16:12.318430Z",
        },
        "queued": {
            "turn_id": "01980f52-3b42-7d36-8e4f-3c4d5e6f7a06",
            "session_id": "01980f52-0a31-7c25-9d3e-2b3c4d5e6f05",
            "status": "queued",
            "attempt": 1,
            "position": 0,
            "correlation_id": "ferry-desk-2026-05-04",
            "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07",
            "created_at": "2026-05-04T08:16:10.104451Z",
            "started_at": "2026-05-04T08:16:10.104451Z",
        },
    }

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
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=is_none)
    toolsets: list[TurnToolset] = Field(default=[], exclude_if=operator.not_)
    """The versions of the agent's toolsets. Omitted if there are none, and until the first step is recorded."""
    options: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """The turn's ``TurnOptions``. Omitted if the request had none."""
    created_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


class TurnPage(ListPage):
    """Internal: a page of the turns of one agent."""

    turns: list[Turn]


class TurnCancelledReply(BaseModel):
    """The response to a cancel request."""

    success: bool = True
    turn_id: str
    session_id: str
    status: str


class WatchedTurn(WireModel):
    """Internal: a turn whose text is being streamed. ``sequence`` is the number of the turn's latest event.

    ``texts`` contains the non-empty text of each recorded step that requested tools, by step number.
    """

    status: TurnStatus
    sequence: int
    texts: dict[int, str] = {}


class TurnEvent(Event):
    """An event whose subject is a turn."""

    session_id: str
    turn_id: str


class TurnQueued(TurnEvent, type="aes.runtime.turn.queued.v1"):
    """A turn was queued. It's waiting for earlier turns of its session, or for a free worker.

    ``blocked_by`` is set if an earlier turn is waiting for actions. This turn can't run until those actions are
    resolved.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "queued behind another turn": {"position": 2, "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07"}
    }

    position: int
    user_message_id: str
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=is_none)


class TurnStarted(TurnEvent, type="aes.runtime.turn.started.v1"):
    """A turn started."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the first attempt": {"attempt": 1, "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07"}
    }

    attempt: int
    user_message_id: str


class TurnRestarted(TurnEvent, type="aes.runtime.turn.restarted.v1"):
    """Another worker took over the turn. Discard any text received for steps after ``resumed_from_step``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"after the first step": {"attempt": 2, "resumed_from_step": 1}}

    attempt: int
    resumed_from_step: int


class TurnCompleted(Event, ExecuteReply, type="aes.runtime.turn.completed.v1"):
    """A turn completed with a reply. The payload is the same as the body of a response to ``execute``."""


class TurnFailed(TurnEvent, Attribution, type="aes.runtime.turn.failed.v1"):
    """A turn failed. ``usage`` covers the model responses that were recorded before the failure or with it."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "model error": {
            **Attribution.EXAMPLES["a user's key"],
            "error": {"type": "model_error", "message": "The model provider returned 529 four times."},
            "usage": Usage.EXAMPLES["two model calls"],
        }
    }

    error: ErrorInfo
    usage: Usage = Usage()


class TurnCancelled(TurnEvent, Attribution, type="aes.runtime.turn.cancelled.v1"):
    """A turn was cancelled. ``reason`` is ``requested``, ``session_deleted`` or ``session_expired``.

    ``usage`` covers the model responses recorded before the cancellation.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "requested": {
            **Attribution.EXAMPLES["a user's key"],
            "reason": "requested",
            "usage": Usage.EXAMPLES["two model calls"],
        }
    }

    reason: str
    usage: Usage = Usage()


TURN_ENDS: Final = (TurnCompleted, TurnFailed, TurnCancelled)
"""The terminal events of a turn. Every turn ends with exactly one of them."""


class CancelTurnAccepted(TurnEvent, type="aes.runtime.cancel_turn.accepted.v1"):
    """A request to cancel a turn was accepted. The turn ended with ``turn.cancelled``, which precedes this event."""

    status: str = "cancelled"


class ToolCallStarted(TurnEvent, type="aes.runtime.turn.tool_call.started.v1"):
    """The model requested a tool call.

    For the first call of a step, ``text_length`` is the length of the step's text in characters.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a calculation": {
            "step": 1,
            "call_id": "call_7Qm2",
            "name": "calculator",
            "arguments": {"expression": "17 * 23"},
        }
    }

    step: int
    call_id: str
    name: str
    arguments: dict[str, Any]
    text_length: int = 0


class ToolCallCompleted(TurnEvent, type="aes.runtime.turn.tool_call.completed.v1"):
    """A tool call completed. ``output`` is its result."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a calculation": {"step": 1, "call_id": "call_7Qm2", "name": "calculator", "output": "17 * 23 = 391"}
    }

    step: int
    call_id: str
    name: str
    output: str


class ToolCallFailed(TurnEvent, type="aes.runtime.turn.tool_call.failed.v1"):
    """A tool call failed, or a crash left its outcome unknown. The model receives ``reason`` as the call's result."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a calculation": {
            "step": 1,
            "call_id": "call_7Qm2",
            "name": "calculator",
            "reason": "The expression isn't complete.",
        }
    }

    step: int
    call_id: str
    name: str
    reason: str


class TurnActionRequired(TurnEvent, type="aes.runtime.turn.action_required.v1"):
    """A turn is waiting for this action to be resolved.

    A turn can wait for several actions. It resumes once all of them are resolved.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"an approval": {"step": 1}}

    step: int
    action: RequiredAction


class TurnActionResolved(TurnEvent, type="aes.runtime.turn.action_resolved.v1"):
    """An action was resolved, or it expired.

    ``decision`` is ``null`` for a tool result; ``by`` is empty if the action expired. ``turn.tool_call.completed``
    or ``turn.tool_call.failed`` follows immediately or, for an approved call, once the call has run. If the turn ends
    first, its open actions are closed without this event.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "an approval": {
            "action_id": "01980f52-4c50-7f58-a061-5e6f7a8b0050",
            "kind": "approval",
            "call_id": "call_7Qm2",
            "decision": "approve",
            "by": "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02",
        }
    }

    action_id: str
    kind: ActionKind
    call_id: str
    decision: Literal["approve", "deny", "expired"] | None = None
    by: str = ""


class OutputInvalid(TurnEvent, type="aes.runtime.turn.output_invalid.v1"):
    """The model's response doesn't match the output schema, so the model is called again.

    ``text_length`` is the length of the response's text in characters.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a price in words": {
            "step": 1,
            "problems": ['price: "four euros" is not of type "number"'],
            "text_length": 23,
        }
    }

    step: int
    problems: list[str]
    text_length: int = 0


class CitationAdded(TurnEvent, type="aes.runtime.turn.citation.added.v1"):
    """The reply cites a passage."""

    citation: Citation


class OutputTextDelta(TurnEvent, type="aes.runtime.turn.output_text.delta.v1", topic=RUNTIME_DELTAS):
    """A piece of a step's text. ``offset`` is its position in that text, in characters."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the beginning": {"attempt": 1, "step": 2, "offset": 0, "text": "17 * 23 "}}

    attempt: int
    step: int
    offset: int
    text: str


class OutputTextDone(TurnEvent, type="aes.runtime.turn.output_text.done.v1", topic=RUNTIME_DELTAS):
    """The text of a step is complete. ``length`` is its length in characters."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the reply": {"attempt": 1, "step": 2, "length": 13}}

    attempt: int
    step: int
    length: int


COMPANY_BACKLOG_FULL: Final = "company_backlog_full"
"""The error detail's type if the company has reached its maximum number of unfinished turns."""
CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"
"""The error detail's type if the conversation of a turn with ``whole_history`` exceeds the model's context window."""
SESSION_MOVED_ON: Final = "session_moved_on"
"""The error detail's type if a turn's ``position`` isn't its actual number in the session."""


class ClientCalls(WireModel):
    """Settings for callers that keep the conversation themselves.

    When the model calls client tools, the turn ends instead of waiting for their results. ``answered`` contains the
    calls of earlier turns and their results. These messages follow the turn's own message.
    """

    answered: list[HistoryMessage] = []


class TurnRequest(WireModel):
    """The caller's request for a turn, apart from the message.

    Fields with default values aren't stored, so defaults must never change.

    ``stream`` publishes the reply's text as deltas. Without ``client_calls``, the turn waits for the results of client
    tools. ``position`` is the expected number of the turn in the session, from 0. If the number is different, the
    command is rejected as a conflict (``session_moved_on``). If the conversation exceeds the model's context
    window, a turn with ``whole_history`` fails (``context_length_exceeded``). Any other turn drops the oldest messages
    with a warning.
    """

    stream: bool = False
    options: TurnOptions | None = None
    client_calls: ClientCalls | None = None
    position: int | None = None
    whole_history: bool = False


class ExecuteTurn(Command, type="aes.runtime.execute_turn.v1", outcomes=TURN_ENDS, subject="session_id"):
    """Add a message to a session and generate a reply. The turn's ID is the command's ID.

    If the session doesn't exist, it's created with the settings in ``begins``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"with deltas": {"content": "What is 17 * 23?", "request": {"stream": True}}}

    session_id: str
    content: str | list[Annotated[ContentBlock, Field()]]
    request: TurnRequest = TurnRequest()
    begins: SessionBeginning | None = None


class CancelTurn(Command, type="aes.runtime.cancel_turn.v1", outcomes=(CancelTurnAccepted,), subject="turn_id"):
    """Cancel a queued, running or waiting turn."""

    session_id: str
    turn_id: str
