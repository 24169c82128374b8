"""Ends a session: turns are refused and cancelled at once, the rest goes when nothing of it runs any more."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from libs.contracts.commands.runtime import DeleteSession
from libs.contracts.errors import NotFound
from libs.contracts.events.runtime import SessionDeleted
from libs.eventing import CommandContext, MessageContext, Transaction
from services.runtime.domain import turn_events
from services.runtime.domain.sessions import OpenWriter, SessionWriter, existing, writable

Begin = Callable[[], AbstractAsyncContextManager[Transaction]]


class DeleteSessionHandler:
    """``on_running``: called just before the commit when something of the session still runs."""

    def __init__(self, writer: OpenWriter, on_running: Callable[[], None]) -> None:
        self._writer = writer
        self._on_running = on_running

    async def __call__(self, transaction: Transaction, command: DeleteSession, context: CommandContext) -> None:
        writer = self._writer(transaction)
        session = writable(await writer.lock(existing("session", command.session_id)), context.identity)
        if not session.active:
            raise NotFound("there is no such session")
        live = await writer.live_turns(session.id)
        await writer.cancel(live, 1)
        transaction.drafts += [
            turn_events.cancelled(turn, "the session was deleted", turn.sequence + 1) for turn in live
        ]
        await writer.mark_deleting(session.id, context.message)
        if not await _remove_if_quiet(transaction, writer, session.id, context.message):
            self._on_running()


class FinishDeletion:
    """Removes a session in deletion whose executions have stopped; whoever notices first does it."""

    def __init__(self, begin: Begin, writer: OpenWriter) -> None:
        self._begin = begin
        self._writer = writer

    async def finish(self, session_id: str) -> bool:
        async with self._begin() as transaction:
            writer = self._writer(transaction)
            message_context = await writer.deletion(session_id)
            return message_context is not None and await _remove_if_quiet(
                transaction, writer, session_id, message_context
            )


async def _remove_if_quiet(
    transaction: Transaction, writer: SessionWriter, session_id: str, message_context: MessageContext
) -> bool:
    if await writer.is_held(session_id):
        return False
    await writer.remove(session_id)
    transaction.emit(SessionDeleted(session_id=session_id), subject=session_id, context=message_context)
    return True
