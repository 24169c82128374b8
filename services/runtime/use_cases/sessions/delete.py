"""Deletes sessions: cancels their turns immediately, and deletes their rows once no execution is running."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from libs.contracts.error_catalogue import CancelReason
from libs.contracts.errors import NotFound
from libs.contracts.identifiers import id_of
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources import sessions
from libs.contracts.resources.sessions import SessionDeleted
from libs.eventing import Transaction
from services.runtime.domain.sessions import SessionWriter, writable
from services.runtime.use_cases.sessions import Begin, OpenWriter


@dataclass(frozen=True, slots=True)
class DeleteSession:
    """Deletes a session. If one of its turns is still running, ``on_running`` is called just before the commit."""

    begin: Begin
    open_writer: OpenWriter
    on_running: Callable[[], None]

    async def delete(self, transaction: Transaction, command: sessions.DeleteSession, context: CommandContext) -> None:
        writer = self.open_writer(transaction)
        session = writable(await writer.lock(id_of(command.session_id, "session")), context.identity)
        if not session.active:
            raise NotFound("There is no session with this ID.")
        live = await writer.live_turns(session.id)
        spent = await writer.cancel(live, 1)
        transaction.drafts += [turn.cancelled(CancelReason.SESSION_DELETED, spent[turn.id]) for turn in live]
        message = replace(context.message, owner_id=session.owner_id)
        await writer.mark_deleting(session.id, message)
        if not await _remove_if_idle(transaction, writer, session.id, message):
            self.on_running()

    async def finish(self, session_id: str) -> bool:
        """Deletes a session that is marked for deletion, unless a turn is executing. Returns whether it was deleted."""
        async with self.begin() as transaction:
            writer = self.open_writer(transaction)
            context = await writer.deletion(session_id)
            return context is not None and await _remove_if_idle(transaction, writer, session_id, context)


async def _remove_if_idle(
    transaction: Transaction, writer: SessionWriter, session_id: str, context: MessageContext
) -> bool:
    if await writer.is_held(session_id):
        return False
    await writer.remove(session_id)
    transaction.emit(SessionDeleted(session_id=session_id), subject=session_id, context=context)
    return True
