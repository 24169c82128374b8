"""Creates several sessions in one transaction with two round trips."""

from collections.abc import Sequence

from libs.contracts.errors import Conflict
from libs.eventing import CommandRouter, Outbox
from libs.quotas import CompanyAmounts
from services.runtime.adapters.postgres.session_writer import SESSIONS, add_messages, add_sessions
from services.runtime.domain.sessions import SessionCreation


class PostgresSessionCreations:
    def __init__(self, outbox: Outbox, amounts: CompanyAmounts) -> None:
        self._outbox = outbox
        self._amounts = amounts

    async def add(self, creations: Sequence[SessionCreation]) -> None:
        sessions = [creation.session for creation in creations]
        async with self._outbox.pipelined() as transaction:
            entry = await CommandRouter.enter_all(transaction, [creation.command for creation in creations])
            adding = await add_sessions(transaction.connection, sessions)
            companies = {session.company_id for session in sessions}
            excess = await self._amounts.excess(transaction.connection, companies, SESSIONS)
            await entry.check()
            if len(await adding.fetchall()) != len(sessions):
                raise Conflict("A session with this ID already exists. Choose another ID.")
            for each in excess.values():
                raise each.error
            await add_messages(transaction.connection, sessions)
            for creation in creations:
                session, context = creation.session, creation.command.message
                transaction.emit(session.created(), subject=session.id, owner_id=session.owner_id, context=context)
