"""Begins a session with its first turn, by one command."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from uuid import UUID

from libs.contracts.api.sessions import ExecuteBody
from libs.contracts.commands.runtime import ClientCalls, ExecuteTurn, SessionBeginning
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.submit_turn import SubmittedTurn
from services.gateway.use_cases.turn_history import TurnHistory


@dataclass(frozen=True, slots=True)
class BeginTurn:
    """The session's id follows from the command's, so that a repeat finds both."""

    commands: CommandDispatcher
    history: TurnHistory

    @asynccontextmanager
    async def __call__(
        self,
        write: Write,
        begins: SessionBeginning,
        body: ExecuteBody,
        client_calls: ClientCalls | None = None,
        *,
        stream: bool,
        whole_history: bool = False,
    ) -> AsyncIterator[SubmittedTurn]:
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

        async with self.commands.dispatch(write, ExecuteTurn, make) as replies:
            yield SubmittedTurn(replies, session_of(replies.command_id), self.history)


def session_of(command_id: str) -> str:
    """The id of the session that a turn begins: as new as the turn's, and never the same."""
    return str(UUID(int=UUID(command_id).int ^ 1))
