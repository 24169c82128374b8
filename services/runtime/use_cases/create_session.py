"""Creates a session with a fixed agent configuration."""

from dataclasses import dataclass

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import Conflict
from libs.eventing import CommandContext, Transaction
from services.runtime.domain.beginnings import new_session
from services.runtime.domain.sessions import OpenWriter


@dataclass(frozen=True, slots=True)
class CreateSession:
    open_writer: OpenWriter

    async def __call__(
        self, transaction: Transaction, command: commands.CreateSession, context: CommandContext
    ) -> None:
        session = new_session(command, command.session_id, context.identity)
        if not await self.open_writer(transaction).add(session):
            raise Conflict("there is, or was, a session with this id")
        transaction.emit(session.created(), subject=session.id, owner_id=session.owner_id)
