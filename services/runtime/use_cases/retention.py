"""Keeps sessions for as long as their company wants, or until their own expiry, and then removes them."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.error_catalogue import CancelReason
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources.retention import Retention, RetentionUpdated, SetRetention
from libs.contracts.resources.sessions import SessionDeleted
from libs.eventing import Outbox, Transaction
from services.runtime.adapters.postgres.retention import PostgresRetentionReads, PostgresRetentionWriter
from services.runtime.adapters.postgres.session_writer import remove_sessions
from services.runtime.domain.sessions import LockedSession, SessionPosition
from services.runtime.use_cases.sessions import OpenWriter

_AT_ONCE: Final = 200
_READ_AT_ONCE: Final = 100
_BREATH_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class SessionRetention:
    """Sets and reads companies' retention periods. ``default`` is in days, or None to keep sessions forever."""

    reads: PostgresRetentionReads
    default: int | None

    async def set(self, transaction: Transaction, command: SetRetention, context: CommandContext) -> None:
        company_id, days = context.identity.company_id, command.session_retention_days
        await PostgresRetentionWriter(transaction).set_session_days(company_id, days)
        transaction.emit(RetentionUpdated(retention=self._of(days)), subject=company_id)

    async def read(self, company_id: str) -> Retention:
        return self._of(await self.reads.session_days(company_id))

    def _of(self, days: int | None) -> Retention:
        kept = self.default if days is None else days
        return Retention(session_retention_days=kept, default_session_retention_days=self.default)


@dataclass(frozen=True, slots=True)
class ExpireSessions:
    """Removes sessions past their own expiry. ``on_removed`` is called with their number.

    A queued or running turn delays the removal, but waiting turns are cancelled. Several processes may do this at once.
    """

    outbox: Outbox
    open_writer: OpenWriter
    on_removed: Callable[[int], None]

    async def __call__(self) -> int:
        """Removes up to 200 sessions in one transaction. Returns their number."""
        async with self.outbox.transaction() as transaction:
            writer = self.open_writer(transaction)
            expired = await writer.lock_expired(_AT_ONCE)
            if not expired:
                return 0
            ids = [session.id for session in expired]
            if waiting := await writer.waiting_turns(ids):
                spent = await writer.cancel(waiting, 1)
                transaction.drafts += [turn.cancelled(CancelReason.SESSION_EXPIRED, spent[turn.id]) for turn in waiting]
            await _remove(transaction, expired)
        self.on_removed(len(expired))
        return len(expired)


class OldSessions:
    """Removes sessions that haven't had a turn within their company's retention period.

    ``on_removed`` is called with the number of removed sessions. Several processes may do this at once.
    """

    def __init__(
        self,
        outbox: Outbox,
        retention: SessionRetention,
        *,
        on_removed: Callable[[int], None],
        limit: int = _READ_AT_ONCE,
    ) -> None:
        self._outbox = outbox
        self._retention = retention
        self._on_removed = on_removed
        self._limit = limit
        self._company = ""
        self._days: int | None = None
        self._last: SessionPosition | None = None

    async def remove(self) -> None:
        """Removes all of them, in batches. This may take an hour."""
        while await self.remove_batch():
            # Pause between batches, so that turns take precedence.
            await asyncio.sleep(_BREATH_SECONDS)

    async def remove_batch(self) -> bool:
        """Removes the next batch. Returns False after the last company. The next call starts over."""
        if self._last is None and not await self._next_company():
            return False
        if self._days is not None:
            async with self._outbox.transaction() as transaction:
                retention = PostgresRetentionWriter(transaction)
                old = await retention.lock_old(self._company, self._days, after=self._last, limit=self._limit)
                await _remove(transaction, old.idle)
            self._on_removed(len(old.idle))
            self._last = old.last
        return True

    async def _next_company(self) -> bool:
        found = await self._retention.reads.next_company(self._company, self._retention.default)
        self._company, self._days = found or ("", None)
        return found is not None


async def _remove(transaction: Transaction, sessions: Sequence[LockedSession]) -> None:
    if sessions:
        await remove_sessions(transaction.connection, [session.id for session in sessions])
    for session in sessions:
        # No command caused this, so the session's ID is the correlation ID.
        context = MessageContext(session.company_id, session.id, owner_id=session.owner_id)
        transaction.emit(SessionDeleted(session_id=session.id), subject=session.id, context=context)
