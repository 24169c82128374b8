"""Changes a session: its metadata, and the agent of one that was opened without."""

from dataclasses import dataclass

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import Conflict
from libs.contracts.events.runtime import SessionUpdated
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from services.runtime.domain.beginnings import new_session
from services.runtime.domain.sessions import OpenWriter, valid_id, writable


@dataclass(frozen=True, slots=True)
class UpdateSession:
    open_writer: OpenWriter

    async def __call__(
        self, transaction: Transaction, command: commands.UpdateSession, context: CommandContext
    ) -> None:
        """Raises NotFound, and Conflict for an agent when the session has one, or a turn."""
        writer = self.open_writer(transaction)
        session = writable(await writer.lock(valid_id("session", command.session_id)), context.identity)
        if not session.active:
            raise Conflict("the session is being deleted")
        if command.metadata is not None:
            await writer.set_metadata(session.id, command.metadata)
        if command.agent is not None:
            agent = new_session(command.agent, session.id, context.identity)
            if not await writer.set_agent(agent):
                raise Conflict("the session has an agent already")
        transaction.emit(SessionUpdated(session_id=session.id), subject=session.id, owner_id=session.owner_id)
