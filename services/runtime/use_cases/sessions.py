"""Creates, forks, changes and deletes sessions."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from libs.contracts.error_catalogue import CancelReason
from libs.contracts.errors import Conflict, NotFound
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources import sessions
from libs.contracts.resources.sessions import SessionDeleted, SessionUpdated
from libs.eventing import Outbox, Transaction
from libs.quotas import CompanyAmounts
from services.runtime.adapters.postgres.session_writer import PostgresSessionWriter, create_sessions, remove_sessions
from services.runtime.domain.beginnings import NewSession, history_of, new_session, valid_new_id
from services.runtime.domain.sessions import LockedSession, SessionCreation, readable, require, writable
from services.runtime.use_cases.engine.commits import GroupCommit

OpenWriter = Callable[[Transaction], PostgresSessionWriter]


class Sessions:
    """Creates sessions with a fixed agent configuration, and changes them later.

    ``prime_cache`` caches a new session for its first turn. If a turn of a deleted session is still running,
    ``on_running`` is called just before the commit.
    """

    def __init__(
        self,
        outbox: Outbox,
        amounts: CompanyAmounts,
        open_writer: OpenWriter,
        prime_cache: Callable[[NewSession], None],
        on_running: Callable[[], None],
    ) -> None:
        self._outbox = outbox
        self._amounts = amounts
        self._open_writer = open_writer
        self._prime_cache = prime_cache
        self._on_running = on_running
        self._commits = GroupCommit[SessionCreation, None](self._commit, lambda creation: creation.session.company_id)

    async def create(self, command: sessions.CreateSession, context: CommandContext) -> None:
        """Creates a session. Raises ValidationFailed, Conflict, QuotaExceeded or AlreadyProcessed."""
        session = new_session(command, command.session_id, context.identity)
        await self._commits.submit(SessionCreation(session, context))

    async def _commit(self, creations: Sequence[SessionCreation]) -> Sequence[None]:
        await create_sessions(self._outbox, self._amounts, creations)
        for creation in creations:
            # Don't cache a session without an agent, since another worker may set its agent.
            if creation.session.config_hash:
                self._prime_cache(creation.session)
        return [None] * len(creations)

    async def fork(self, transaction: Transaction, command: sessions.ForkSession, context: CommandContext) -> None:
        """Creates a session with the agent and history of a session that the caller can read."""
        writer = self._open_writer(transaction)
        source = readable(await writer.find(id_of(command.source_session_id, "session")), context.identity)
        if not source.active:
            raise NotFound("There is no session with this ID.")
        session_id, owner_id = valid_new_id(command.session_id), context.identity.user_id
        through = await _last_turn(writer, source.id, command)
        await writer.check_quota(source.company_id)
        created = await writer.fork(command, owner_id, through)
        if created is None:
            raise Conflict("The session was deleted, or the new ID already exists. Choose another ID.")
        transaction.emit(created, subject=session_id, owner_id=owner_id)

    async def update(self, transaction: Transaction, command: sessions.UpdateSession, context: CommandContext) -> None:
        """Sets metadata or the agent. Raises NotFound, or Conflict if the agent can no longer be set."""
        writer = self._open_writer(transaction)
        session = await _lock(writer, command.session_id, context.identity)
        if command.metadata is not None:
            await writer.set_metadata(session.id, command.metadata)
        if command.agent is not None:
            agent = new_session(command.agent, session.id, context.identity)
            if not await writer.set_agent(agent):
                raise Conflict("The session already has an agent. To use another agent, create another session.")
        transaction.emit(SessionUpdated(session_id=session.id), subject=session.id, owner_id=session.owner_id)

    async def add_messages(
        self, transaction: Transaction, command: sessions.AddMessages, context: CommandContext
    ) -> None:
        """Adds messages for later turns. Raises NotFound, ValidationFailed, or Conflict if a turn is unfinished."""
        messages = history_of(command.messages)
        writer = self._open_writer(transaction)
        session = await _lock(writer, command.session_id, context.identity)
        if await writer.live_turns(session.id):
            raise Conflict("One of the session's turns hasn't ended. Add messages after it has ended.")
        updated = SessionUpdated(session_id=session.id, messages=await writer.add_messages(session.id, messages))
        transaction.emit(updated, subject=session.id, owner_id=session.owner_id)

    async def delete(self, transaction: Transaction, command: sessions.DeleteSession, context: CommandContext) -> None:
        writer = self._open_writer(transaction)
        session = writable(await writer.lock(id_of(command.session_id, "session")), context.identity)
        if not session.active:
            raise NotFound("There is no session with this ID.")
        live = await writer.live_turns(session.id)
        spent = await writer.cancel(live, 1)
        transaction.drafts += [turn.cancelled(CancelReason.SESSION_DELETED, spent[turn.id]) for turn in live]
        message = replace(context.message, owner_id=session.owner_id)
        await writer.mark_deleting(session.id, message)
        if not await _remove_if_idle(transaction, writer, session.id, message):
            self._on_running()

    async def finish_deletion(self, session_id: str) -> bool:
        """Deletes a session that is marked for deletion, unless a turn is executing. Returns whether it was deleted."""
        async with self._outbox.transaction() as transaction:
            writer = self._open_writer(transaction)
            context = await writer.deletion(session_id)
            return context is not None and await _remove_if_idle(transaction, writer, session_id, context)


async def _lock(writer: PostgresSessionWriter, session_id: str, caller: Identity) -> LockedSession:
    session = writable(await writer.lock(id_of(session_id, "session")), caller)
    if not session.active:
        raise Conflict("The session is being deleted.")
    return session


async def _last_turn(writer: PostgresSessionWriter, session_id: str, command: sessions.ForkSession) -> int | None:
    """Returns the position of the last turn to copy, or None to copy all turns."""
    if command.before_turn_id is not None:
        point = require("turn", await writer.fork_point(session_id, id_of(command.before_turn_id, "turn")))
        if not point.have_those_before_ended:
            raise Conflict("An earlier turn hasn't ended. Wait for it, or cancel it.")
        return point.position - 1
    if command.up_to_turn_id is None:
        return None
    point = require("turn", await writer.fork_point(session_id, id_of(command.up_to_turn_id, "turn")))
    if not point.has_ended:
        raise Conflict("The turn hasn't ended. Wait for it, or cancel it.")
    return point.position


async def _remove_if_idle(
    transaction: Transaction, writer: PostgresSessionWriter, session_id: str, context: MessageContext
) -> bool:
    if await writer.is_held(session_id):
        return False
    await remove_sessions(transaction.connection, [session_id])
    transaction.emit(SessionDeleted(session_id=session_id), subject=session_id, context=context)
    return True
