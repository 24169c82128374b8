"""Creates sessions, several in a transaction of two round trips."""

from collections.abc import Sequence

from libs.contracts.errors import Conflict
from libs.eventing import Outbox, enter_commands
from services.runtime.adapters.postgres.session_writer import add_messages, add_sessions
from services.runtime.domain.sessions import SessionCreation


class PostgresSessionCreations:
    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox

    async def add(self, creations: Sequence[SessionCreation]) -> None:
        sessions = [creation.session for creation in creations]
        async with self._outbox.pipelined() as transaction:
            entry = await enter_commands(transaction, [creation.command for creation in creations])
            adding = await add_sessions(transaction.connection, sessions)
            await entry.check()
            if len(await adding.fetchall()) != len(sessions):
                raise Conflict("there is, or was, a session with this id")
            await add_messages(transaction.connection, sessions)
            await transaction.begin(*(session.id for session in sessions))
            for creation in creations:
                session, context = creation.session, creation.command.message
                transaction.emit(
                    session.created(), subject=session.id, owner_id=session.owner_id, sequence=1, context=context
                )
