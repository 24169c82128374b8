"""What the runtime is asked to do."""

from typing import Annotated, Any

from pydantic import Field

from libs.contracts.api.sessions import ContentBlock
from libs.contracts.events.runtime import (
    CancelTurnAccepted,
    SessionCreated,
    SessionDeleted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
)
from libs.contracts.messages import Command
from libs.contracts.topics import RUNTIME_COMMANDS


class RuntimeCommand(Command):
    TOPIC = RUNTIME_COMMANDS


class CreateSession(RuntimeCommand):
    """Open a conversation with a validated, normalised configuration, which the session keeps."""

    TYPE = "aes.runtime.create_session.v1"
    OUTCOMES = (SessionCreated,)

    session_id: str
    agent_config: dict[str, Any]
    config_hash: str
    agent_id: str | None = None


class DeleteSession(RuntimeCommand):
    """End a session: refuse turns, cancel the running one, remove the history."""

    TYPE = "aes.runtime.delete_session.v1"
    OUTCOMES = (SessionDeleted,)

    session_id: str


class ExecuteTurn(RuntimeCommand):
    """Take a message into a session and answer it. The turn's id is the command's id.

    ``stream`` asks for deltas of the text while it is made.
    """

    TYPE = "aes.runtime.execute_turn.v1"
    OUTCOMES = (TurnCompleted, TurnFailed, TurnCancelled)

    session_id: str
    content: str | list[Annotated[ContentBlock, Field()]]
    stream: bool = False


class CancelTurn(RuntimeCommand):
    """Stop a turn that waits or runs."""

    TYPE = "aes.runtime.cancel_turn.v1"
    OUTCOMES = (CancelTurnAccepted,)

    session_id: str
    turn_id: str
