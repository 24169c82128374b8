"""Commands to the runtime."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from libs.contracts.api.sessions import ContentBlock, HistoryMessage, TurnOptions, WireModel
from libs.contracts.events.runtime import (
    TURN_ENDS,
    CancelTurnAccepted,
    ResolveActionAccepted,
    SessionCreated,
    SessionDeleted,
    SessionUpdated,
)
from libs.contracts.messages import Command

COMPANY_BACKLOG_FULL: Final = "company_backlog_full"
"""Type of the detail of a refusal: the company has as many turns in work as it may have."""
CONTEXT_LENGTH_EXCEEDED: Final = "context_length_exceeded"
"""The type of the finding in the failure of a turn with ``ExecuteTurn.whole_history``."""
SESSION_MOVED_ON: Final = "session_moved_on"
"""The type of the finding in a refusal because of ``ExecuteTurn.position``."""


class SessionBeginning(WireModel):
    """A session's agent, by a validated, normalised configuration that the session keeps, and what it begins with.

    ``messages`` are said before its first turn. A session that is not ``listed`` is found by its id alone. One that has
    ``expires_after`` is deleted that many seconds after it was created, once none of its turns is queued or runs.
    """

    agent_config: dict[str, Any]
    config_hash: str
    agent_id: str | None = None
    messages: list[HistoryMessage] = []
    listed: bool = True
    expires_after: int | None = Field(default=None, ge=1)
    metadata: dict[str, str] = {}


NO_AGENT: Final = ""
"""The ``config_hash`` of a session whose agent is still to be set (``UpdateSession``)."""


class CreateSession(
    Command, SessionBeginning, type="aes.runtime.create_session.v1", outcomes=(SessionCreated,), subject="session_id"
):
    """Open a conversation."""

    session_id: str


class UpdateSession(Command, type="aes.runtime.update_session.v1", outcomes=(SessionUpdated,), subject="session_id"):
    """Replace a session's ``metadata``, or set the ``agent`` of one that was opened without and has no turns."""

    session_id: str
    metadata: dict[str, str] | None = None
    agent: SessionBeginning | None = None


class AddMessages(Command, type="aes.runtime.add_messages.v1", outcomes=(SessionUpdated,), subject="session_id"):
    """Add to a session's history between its turns, before what is said next: refused while a turn is under way."""

    session_id: str
    messages: list[HistoryMessage]


class ForkSession(Command, type="aes.runtime.fork_session.v1", outcomes=(SessionCreated,)):
    """Open a session with the agent of another one and a copy of its completed turns, up to one of them or before it.

    ``session_id`` is the new session's; without a turn all completed ones are copied. ``listed`` and ``expires_after``
    as of a ``SessionBeginning``.
    """

    session_id: str
    source_session_id: str
    up_to_turn_id: str | None = None
    before_turn_id: str | None = None
    listed: bool = True
    expires_after: int | None = Field(default=None, ge=1)


class DeleteSession(Command, type="aes.runtime.delete_session.v1", outcomes=(SessionDeleted,), subject="session_id"):
    """End a session: refuse turns, cancel the running one, remove the history."""

    session_id: str


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


class ResolveAction(
    Command, type="aes.runtime.resolve_action.v1", outcomes=(ResolveActionAccepted,), subject="turn_id"
):
    """Answer an open action of a waiting turn: an approval by ``decision``, a tool's result by ``output`` or ``error``.

    Without ``decision`` and ``error`` it is an ``output``, which may be null.
    """

    session_id: str
    turn_id: str
    action_id: str
    decision: Literal["approve", "deny"] | None = None
    reason: str | None = None
    output: Any = None
    error: str | None = None
