"""Removes sessions whose time is over."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from libs.contracts.events.runtime import SessionDeleted
from libs.eventing import MessageContext, Transaction
from services.runtime.domain.sessions import OpenWriter

_AT_ONCE: Final = 200


@dataclass(frozen=True, slots=True)
class ExpireSessions:
    """A session with a turn in work is left until that has ended; waiting turns are cancelled.

    Any number of processes may do it at once.
    """

    begin: Callable[[], AbstractAsyncContextManager[Transaction]]
    open_writer: OpenWriter

    async def __call__(self) -> int:
        """Removes up to 200 sessions in one transaction; returns how many there were."""
        async with self.begin() as transaction:
            writer = self.open_writer(transaction)
            expired = await writer.lock_expired(_AT_ONCE)
            if not expired:
                return 0
            ids = [session.id for session in expired]
            if waiting := await writer.waiting_turns(ids):
                spent = await writer.cancel(waiting, 1)
                transaction.drafts += [turn.cancelled("the session expired", spent[turn.id]) for turn in waiting]
            await writer.remove(*ids)
            for session in expired:
                # Nobody's command: the session itself is what the event correlates with.
                context = MessageContext(session.company_id, session.id, owner_id=session.owner_id)
                transaction.emit(SessionDeleted(session_id=session.id), subject=session.id, context=context)
            return len(expired)
