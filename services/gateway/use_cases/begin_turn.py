"""Begins a session with its first turn, by one command."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from uuid import UUID

from libs.contracts.api.sessions import ExecuteBody
from libs.contracts.commands.runtime import ClientCalls, ExecuteTurn, SessionBeginning
from libs.eventing import Replies
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.submit_turn import SubmittedTurn
from services.gateway.use_cases.turn_history import TurnHistory


@dataclass(frozen=True, slots=True)
class BeginTurn:
    """The session's id follows from the command's, so that a repeat finds both."""

    commands: CommandDispatcher
    history: TurnHistory

    def __call__(
        self,
        write: Write,
        begins: SessionBeginning,
        body: ExecuteBody,
        client_calls: ClientCalls | None = None,
        *,
        stream: bool,
        whole_history: bool = False,
    ) -> AbstractAsyncContextManager[SubmittedTurn]:
        def make(command_id: str) -> ExecuteTurn:
            return ExecuteTurn.model_construct(
                session_id=session_of(command_id),
                content=body.content,
                stream=stream,
                options=body.options,
                begins=begins,
                client_calls=client_calls,
                whole_history=whole_history,
            )

        def submitted(command_id: str, replies: Replies, known: bool) -> SubmittedTurn:
            return SubmittedTurn(command_id, replies, known, session_id=session_of(command_id), history=self.history)

        return self.commands.dispatch(write, ExecuteTurn, make, submitted)


def session_of(command_id: str) -> str:
    """The id of the session that a turn begins: as new as the turn's, and never the same."""
    return str(UUID(int=UUID(command_id).int ^ 1))
