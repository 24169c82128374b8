"""Adds messages to a session's history between its turns."""

from dataclasses import dataclass

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import Conflict
from libs.contracts.events.runtime import SessionUpdated
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from services.runtime.domain.beginnings import history_of
from services.runtime.domain.sessions import OpenWriter, valid_id, writable


@dataclass(frozen=True, slots=True)
class AddMessages:
    """Turns that begin later are given them; a cached conversation reads them as it reads turns of other processes."""

    open_writer: OpenWriter

    async def __call__(self, transaction: Transaction, command: commands.AddMessages, context: CommandContext) -> None:
        """Raises NotFound, Conflict while a turn is under way, and ValidationFailed for results without a call."""
        messages = history_of(command.messages)
        writer = self.open_writer(transaction)
        session = writable(await writer.lock(valid_id("session", command.session_id)), context.identity)
        if not session.active:
            raise Conflict("the session is being deleted")
        if await writer.live_turns(session.id):
            raise Conflict("a turn of the session is under way: add messages when it has ended")
        added = await writer.add_messages(session.id, messages)
        transaction.emit(
            SessionUpdated(session_id=session.id, messages=added), subject=session.id, owner_id=session.owner_id
        )
