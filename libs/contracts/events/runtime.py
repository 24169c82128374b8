"""Events of the runtime: sessions and turns.

The subject and the causation id of a turn's events are the turn's id, which is that of its command.
"""

import operator
from typing import Any, Final, Literal

from pydantic import Field

from libs.contracts.api.sessions import (
    ActionKind,
    Attribution,
    BlockedBy,
    Citation,
    ExecuteReply,
    Message,
    RequiredAction,
    Turn,
    Usage,
)
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event
from libs.contracts.topics import RUNTIME_DELTAS


class SessionCreated(Event, type="aes.runtime.session.created.v1"):
    """A conversation is open. ``forked_from``: the session whose history it begins with.

    A session that its first turn began has an event without a causation id. ``listed`` is left out unless it is false:
    such a session is found by its id alone.
    """

    session_id: str
    config_hash: str
    agent_id: str | None = None
    owner_id: str = ""
    forked_from: str | None = None
    listed: bool = Field(default=True, exclude_if=bool)


class SessionUpdated(Event, type="aes.runtime.session.updated.v1"):
    """The session's metadata was replaced, its agent set, or ``messages`` were added to its history between turns."""

    session_id: str
    messages: list[Message] = Field(default=[], exclude_if=operator.not_)


class SessionDeleted(Event, type="aes.runtime.session.deleted.v1"):
    """The session and its history are deleted. Consumers delete the data that they keep about the session."""

    session_id: str


class TurnEvent(Event):
    session_id: str
    turn_id: str


class TurnQueued(TurnEvent, type="aes.runtime.turn.queued.v1"):
    """The turn waits for earlier turns of its session, or for a free worker.

    ``blocked_by``: the earlier turn when it waits for answers, without which none of the session goes on.
    """

    position: int
    user_message_id: str
    blocked_by: BlockedBy | None = Field(default=None, exclude_if=lambda turn: turn is None)


class TurnStarted(TurnEvent, type="aes.runtime.turn.started.v1"):
    attempt: int
    user_message_id: str


class TurnRestarted(TurnEvent, type="aes.runtime.turn.restarted.v1"):
    """Another worker has taken over the turn. Consumers discard text of steps after ``resumed_from_step``."""

    attempt: int
    resumed_from_step: int


class TurnCompleted(Event, ExecuteReply, type="aes.runtime.turn.completed.v1"):
    """The turn has ended with a reply. The payload is the body of the HTTP answer to ``execute``."""


class TurnFailed(TurnEvent, Attribution, type="aes.runtime.turn.failed.v1"):
    """``usage`` is that of the model's answers that were recorded or came with the failure."""

    error: ErrorInfo
    usage: Usage = Usage()


class TurnCancelled(TurnEvent, Attribution, type="aes.runtime.turn.cancelled.v1"):
    """``reason`` is ``requested``, ``session_deleted`` or ``session_expired``.

    ``usage`` is that of the model's answers that were recorded until then.
    """

    reason: str
    usage: Usage = Usage()


TURN_ENDS: Final = (TurnCompleted, TurnFailed, TurnCancelled)
"""Every turn ends with exactly one of them."""


class CancelTurnAccepted(TurnEvent, type="aes.runtime.cancel_turn.accepted.v1"):
    """The cancel command was carried out. The turn itself ends with ``turn.cancelled``."""

    status: str = "cancelled"


class ToolCallStarted(TurnEvent, type="aes.runtime.turn.tool_call.started.v1"):
    """A call that the model asked for. ``text_length``, on a step's first call: characters of the step's text."""

    step: int
    call_id: str
    name: str
    arguments: dict[str, Any]
    text_length: int = 0


class ToolCallCompleted(TurnEvent, type="aes.runtime.turn.tool_call.completed.v1"):
    step: int
    call_id: str
    name: str
    output: str


class ToolCallFailed(TurnEvent, type="aes.runtime.turn.tool_call.failed.v1"):
    """The tool failed, or its outcome is unknown after a crash. The model gets ``reason``, a text, as the result."""

    step: int
    call_id: str
    name: str
    reason: str


class TurnActionRequired(TurnEvent, type="aes.runtime.turn.action_required.v1"):
    """The turn waits for an answer to this action. A turn may wait for several; it goes on when all are resolved."""

    step: int
    action: RequiredAction


class TurnActionResolved(TurnEvent, type="aes.runtime.turn.action_resolved.v1"):
    """An action was answered, or has expired. ``decision`` is null for a tool's result, ``by`` empty for an expiry.

    A result, a denial and an expiry are followed by the call's ``tool_call.completed`` or ``tool_call.failed``, an
    approval once the call was made. The end of the turn closes its open actions without this event.
    """

    action_id: str
    kind: ActionKind
    call_id: str
    decision: Literal["approve", "deny", "expired"] | None = None
    by: str = ""


class ResolveActionAccepted(TurnEvent, type="aes.runtime.resolve_action.accepted.v1"):
    """The answer to an action was taken, or had been before. ``turn`` is the turn's state after it."""

    turn: Turn


class OutputInvalid(TurnEvent, type="aes.runtime.turn.output_invalid.v1"):
    """The model's answer does not fit the output schema, and it is asked again. ``text_length``: as for tool calls."""

    step: int
    problems: list[str]
    text_length: int = 0


class CitationAdded(TurnEvent, type="aes.runtime.turn.citation.added.v1"):
    citation: Citation


class OutputTextDelta(TurnEvent, type="aes.runtime.turn.output_text.delta.v1", topic=RUNTIME_DELTAS):
    """A piece of the text of one step; ``offset`` counts characters from the step's beginning."""

    attempt: int
    step: int
    offset: int
    text: str


class OutputTextDone(TurnEvent, type="aes.runtime.turn.output_text.done.v1", topic=RUNTIME_DELTAS):
    """A step's text is complete; ``length`` counts its characters."""

    attempt: int
    step: int
    length: int
