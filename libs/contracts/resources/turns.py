"""Turns: a message, its execution and its reply.

The subject and the causation id of a turn's events are the turn's id, which is that of its command.
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

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "text": {"content": "What is 17 * 23?", "correlation_id": "order-4711"},
        "with options": {
            "content": "Which ferries leave today?",
            "options": {"instructions": "Answer in one sentence.", "temperature": 0, "stop": ["\n\n"]},
        },
        "blocks": {
            "content": [
                {"type": "text", "text": "What is on this picture?"},
                {"type": "image_url", "image_url": {"url": "https://example.com/picture.png"}},
            ]
        },
    }

    content: MessageText | MessageBlocks
    correlation_id: str | None = Field(default=None, pattern=CORRELATION_ID_PATTERN)
    options: TurnOptions | None = None


class RequiredAction(WireModel):
    """An answer from outside that a waiting turn needs before it goes on.

    ``approval``: a person decides whether the call is made, with exactly these arguments. ``tool_result``: the caller
    runs the tool and gives its result. At ``expires_at`` the call fails and the turn goes on.
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
    """The waiting turn that a queued one comes after, and the answers that it needs."""

    turn_id: str
    required_actions: list[RequiredAction] = []


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
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=is_none)


class TurnToolset(WireModel):
    """The version of a toolset that a turn works with."""

    name: str
    version: int


class Turn(WireModel):
    """A turn's state; ``reply`` once completed, ``error`` once failed, ``required_actions`` while it is waiting.

    ``blocked_by`` while it is queued behind a waiting turn.
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
    """Toolsets whose tools the agent has; left out when there are none, and before the first step is recorded."""
    options: dict[str, Any] | None = Field(default=None, exclude_if=is_none)
    """Options as they were given (``TurnOptions``); left out when there were none."""
    created_at: Timestamp
    started_at: Timestamp | None = None
    finished_at: Timestamp | None = None


class TurnPage(ListPage):
    """Internal: turns with an agent."""

    turns: list[Turn]


class TurnCancelledReply(BaseModel):
    success: bool = True
    turn_id: str
    session_id: str
    status: str


class WatchedTurn(WireModel):
    """Internal: a turn whose text somebody follows. ``sequence`` is that of its newest event.

    ``texts``: the texts of its recorded steps that asked for tools, by step; empty ones are left out.
    """

    status: TurnStatus
    sequence: int
    texts: dict[int, str] = {}


class TurnEvent(Event):
    session_id: str
    turn_id: str


class TurnQueued(TurnEvent, type="aes.runtime.turn.queued.v1"):
    """The turn waits for earlier turns of its session, or for a free worker.

    ``blocked_by``: the earlier turn when it waits for answers, without which none of the session goes on.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "behind another turn": {"position": 2, "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07"}
    }

    position: int
    user_message_id: str
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=is_none)


class TurnStarted(TurnEvent, type="aes.runtime.turn.started.v1"):
    EXAMPLES: ClassVar[dict[str, Any]] = {
        "the first attempt": {"attempt": 1, "user_message_id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07"}
    }

    attempt: int
    user_message_id: str


class TurnRestarted(TurnEvent, type="aes.runtime.turn.restarted.v1"):
    """Another worker has taken over the turn. Consumers discard text of steps after ``resumed_from_step``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"after the first step": {"attempt": 2, "resumed_from_step": 1}}

    attempt: int
    resumed_from_step: int


class TurnCompleted(Event, ExecuteReply, type="aes.runtime.turn.completed.v1"):
    """The turn has ended with a reply. The payload is the body of the HTTP answer to ``execute``."""


class TurnFailed(TurnEvent, Attribution, type="aes.runtime.turn.failed.v1"):
    """``usage`` is that of the model's answers that were recorded or came with the failure."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "no model": {
            **Attribution.EXAMPLES["of a user's key"],
            "error": {"type": "model_error", "message": "The model provider answered 529 four times."},
            "usage": Usage.EXAMPLES["of two model calls"],
        }
    }

    error: ErrorInfo
    usage: Usage = Usage()


class TurnCancelled(TurnEvent, Attribution, type="aes.runtime.turn.cancelled.v1"):
    """``reason`` is ``requested``, ``session_deleted`` or ``session_expired``.

    ``usage`` is that of the model's answers that were recorded until then.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "by the caller": {
            **Attribution.EXAMPLES["of a user's key"],
            "reason": "requested",
            "usage": Usage.EXAMPLES["of two model calls"],
        }
    }

    reason: str
    usage: Usage = Usage()


TURN_ENDS: Final = (TurnCompleted, TurnFailed, TurnCancelled)
"""Every turn ends with exactly one of them."""


class CancelTurnAccepted(TurnEvent, type="aes.runtime.cancel_turn.accepted.v1"):
    """The cancel command was carried out. The turn itself ends with ``turn.cancelled``."""

    status: str = "cancelled"


class ToolCallStarted(TurnEvent, type="aes.runtime.turn.tool_call.started.v1"):
    """A call that the model asked for. ``text_length``, on a step's first call: characters of the step's text."""

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
    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a calculation": {"step": 1, "call_id": "call_7Qm2", "name": "calculator", "output": "17 * 23 = 391"}
    }

    step: int
    call_id: str
    name: str
    output: str


class ToolCallFailed(TurnEvent, type="aes.runtime.turn.tool_call.failed.v1"):
    """The tool failed, or its outcome is unknown after a crash. The model gets ``reason``, a text, as the result."""

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
    """The turn waits for an answer to this action. A turn may wait for several; it goes on when all are resolved."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an approval": {"step": 1}}

    step: int
    action: RequiredAction


class TurnActionResolved(TurnEvent, type="aes.runtime.turn.action_resolved.v1"):
    """An action was answered, or has expired. ``decision`` is null for a tool's result, ``by`` empty for an expiry.

    A result, a denial and an expiry are followed by the call's ``tool_call.completed`` or ``tool_call.failed``, an
    approval once the call was made. The end of the turn closes its open actions without this event.
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
    """The model's answer does not fit the output schema, and it is asked again. ``text_length``: as for tool calls."""

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
    citation: Citation


class OutputTextDelta(TurnEvent, type="aes.runtime.turn.output_text.delta.v1", topic=RUNTIME_DELTAS):
    """A piece of the text of one step; ``offset`` counts characters from the step's beginning."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the beginning": {"attempt": 1, "step": 2, "offset": 0, "text": "17 * 23 "}}

    attempt: int
    step: int
    offset: int
    text: str


class OutputTextDone(TurnEvent, type="aes.runtime.turn.output_text.done.v1", topic=RUNTIME_DELTAS):
    """A step's text is complete; ``length`` counts its characters."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"the reply": {"attempt": 1, "step": 2, "length": 13}}

    attempt: int
    step: int
    length: int


COMPANY_BACKLOG_FULL: Final = "company_backlog_full"
"""Type of the detail of a refusal: the company has as many turns in work as it may have."""
CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"
"""The type of the finding in the failure of a turn with ``ExecuteTurn.whole_history``."""
SESSION_MOVED_ON: Final = "session_moved_on"
"""The type of the finding in a refusal because of ``ExecuteTurn.position``."""


class ClientCalls(WireModel):
    """For a caller who keeps the conversation: the turn ends with calls of client tools, instead of waiting for them.

    ``answered`` follows the turn's own message: the calls that earlier turns ended with, and their results.
    """

    answered: list[HistoryMessage] = []


class ExecuteTurn(Command, type="aes.runtime.execute_turn.v1", outcomes=TURN_ENDS, subject="session_id"):
    """Take a message into a session and answer it. The turn's id is the command's id.

    ``stream`` asks for deltas of the text while it is made. ``options`` go before the agent's own settings. With
    ``begins`` the session is created first, unless there is one with that id. ``client_calls`` left out: the turn waits
    for the results of client tools. With a ``position`` it is refused as a conflict (``session_moved_on``) unless it
    becomes the turn of that number, from 0. With ``whole_history`` it fails (``context_length_exceeded``) when the
    conversation is longer than what a model is given; else the oldest messages are left out, with a warning.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"with deltas": {"content": "What is 17 * 23?", "stream": True}}

    session_id: str
    content: str | list[Annotated[ContentBlock, Field()]]
    stream: bool = False
    options: TurnOptions | None = None
    begins: SessionBeginning | None = None
    client_calls: ClientCalls | None = None
    position: int | None = None
    whole_history: bool = False


class CancelTurn(Command, type="aes.runtime.cancel_turn.v1", outcomes=(CancelTurnAccepted,), subject="turn_id"):
    """Stop a turn that is queued, runs or waits."""

    session_id: str
    turn_id: str
