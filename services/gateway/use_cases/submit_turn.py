from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from libs.contracts.api.sessions import ExecuteBody
from libs.contracts.commands.runtime import ExecuteTurn
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.commands.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.commands.submitted_turn import SubmittedTurn


@dataclass(frozen=True, slots=True)
class SubmitTurn:
    """Sends a message to the runtime. The turn's id is the command's."""

    commands: CommandDispatcher

    @asynccontextmanager
    async def __call__(
        self, write: Write, session_id: str, body: ExecuteBody, *, stream: bool
    ) -> AsyncIterator[SubmittedTurn]:
        # The content was validated as part of the body a moment ago.
        command = ExecuteTurn.model_construct(session_id=session_id, content=body.content, stream=stream)
        async with self.commands.dispatch(write, ExecuteTurn, lambda _: command, subject=session_id) as pending:
            yield SubmittedTurn(pending.command_id, pending.replies, pending.known)
