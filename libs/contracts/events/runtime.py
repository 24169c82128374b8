"""What happens in the runtime: sessions and turns.

A turn's events have the turn's id as subject and, being caused by its command, as causation id.
"""

from typing import Any

from libs.contracts.api.sessions import Citation, ExecuteReply
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event
from libs.contracts.topics import RUNTIME_DELTAS, RUNTIME_EVENTS


class RuntimeEvent(Event):
    TOPIC = RUNTIME_EVENTS


class SessionCreated(RuntimeEvent):
    TYPE = "aes.runtime.session.created.v1"

    session_id: str
    config_hash: str
    agent_id: str | None = None
    owner_id: str = ""


class SessionDeleted(RuntimeEvent):
    """The session has ended and its history is gone; whoever holds things of it drops them."""

    TYPE = "aes.runtime.session.deleted.v1"

    session_id: str


class TurnEvent(RuntimeEvent):
    session_id: str
    turn_id: str


class TurnQueued(TurnEvent):
    """The turn waits for those before it in its session, or for a free worker."""

    TYPE = "aes.runtime.turn.queued.v1"

    position: int
    user_message_id: str


class TurnStarted(TurnEvent):
    TYPE = "aes.runtime.turn.started.v1"

    attempt: int
    user_message_id: str


class TurnRestarted(TurnEvent):
    """Another worker took the turn over; text sent after ``resumed_from_step`` is void."""

    TYPE = "aes.runtime.turn.restarted.v1"

    attempt: int
    resumed_from_step: int


class TurnCompleted(RuntimeEvent, ExecuteReply):
    """The reply; the payload is the execute response itself."""

    TYPE = "aes.runtime.turn.completed.v1"


class TurnFailed(TurnEvent):
    TYPE = "aes.runtime.turn.failed.v1"

    error: ErrorInfo


class TurnCancelled(TurnEvent):
    TYPE = "aes.runtime.turn.cancelled.v1"

    reason: str


class CancelTurnAccepted(TurnEvent):
    """The cancel command did its work; the turn's own end is ``turn.cancelled``."""

    TYPE = "aes.runtime.cancel_turn.accepted.v1"

    status: str = "cancelled"


class ToolCallStarted(TurnEvent):
    TYPE = "aes.runtime.turn.tool_call.started.v1"

    step: int
    call_id: str
    name: str
    arguments: dict[str, Any]


class ToolCallCompleted(TurnEvent):
    TYPE = "aes.runtime.turn.tool_call.completed.v1"

    step: int
    call_id: str
    name: str
    output: str


class ToolCallFailed(TurnEvent):
    """The tool failed, or its outcome is unknown after a crash; the model was told."""

    TYPE = "aes.runtime.turn.tool_call.failed.v1"

    step: int
    call_id: str
    name: str
    reason: str


class CitationAdded(TurnEvent):
    TYPE = "aes.runtime.turn.citation.added.v1"

    citation: Citation


class OutputTextDelta(TurnEvent):
    """A piece of the text of one step; ``offset`` counts characters from the step's beginning."""

    TYPE = "aes.runtime.turn.output_text.delta.v1"
    TOPIC = RUNTIME_DELTAS

    attempt: int
    step: int
    offset: int
    text: str


class OutputTextDone(TurnEvent):
    """A step's text is complete; ``length`` counts its characters."""

    TYPE = "aes.runtime.turn.output_text.done.v1"
    TOPIC = RUNTIME_DELTAS

    attempt: int
    step: int
    length: int
