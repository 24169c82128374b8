"""Transactional outbox: messages are recorded with the state that they report and published after the commit."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, Event
from libs.eventing import _outbox_table as table
from libs.eventing._messages import MessageContext, MessageDraft
from libs.eventing._outbox_table import OutboxMessage
from libs.eventing._publisher import Publisher
from libs.eventing._sequence_cache import SequenceCache
from libs.persistence import Connection, Database


@dataclass(frozen=True, slots=True)
class Appended:
    """Messages recorded in a transaction, to be published once it is committed.

    ``earlier`` are messages of the same subjects that were recorded before and may not have been sent.
    """

    earlier: Sequence[OutboxMessage]
    messages: Sequence[OutboxMessage]


_NOTHING: Final = Appended((), ())


class Transaction:
    """A database transaction and the messages that it records in the outbox."""

    def __init__(self, connection: Connection, context: MessageContext | None) -> None:
        self.connection = connection
        self.drafts: list[MessageDraft] = []
        self._context = context

    def emit(
        self, event: Event, *, subject: str, sequence: int | None = None, context: MessageContext | None = None
    ) -> None:
        """Record an event about ``subject``; it is published right after the commit."""
        context = context or self._context
        if context is None:
            raise ValueError("an event needs a message context")
        self.drafts.append(MessageDraft(event, subject=subject, context=context, sequence=sequence))

    def send(
        self, command: Command, *, command_id: str, subject: str, identity: Identity, context: MessageContext
    ) -> None:
        """Record a command to another service in the name of ``identity``; it is sent right after the commit.

        ``subject`` is the id of the other service's entity: commands of one subject arrive in order. A command that
        was not taken up after three days is rejected. Its outcome arrives as an event with this causation id.
        """
        context = replace(context, causation_id=None)
        self.drafts.append(
            MessageDraft(command, subject=subject, context=context, message_id=command_id, identity=identity)
        )


class Outbox:
    """Runs transactions that record messages, and publishes those after the commit."""

    def __init__(self, database: Database, publisher: Publisher) -> None:
        self._database = database
        self._publisher = publisher
        self._writer = new_id()
        self._sequences = SequenceCache()

    @asynccontextmanager
    async def transaction(self, context: MessageContext | None = None) -> AsyncIterator[Transaction]:
        """A transaction that ends with its messages in the outbox, or with nothing at all."""
        async with self._database.connection() as connection:
            subjects: list[str] = []
            try:
                async with connection.transaction():
                    transaction = Transaction(connection, context)
                    yield transaction
                    appended = await self.append(connection, transaction.drafts)
                    subjects = [message.subject for message in appended.messages]
            except BaseException:
                # Also when the commit was sent and its answer got lost: the rows may be there.
                self._publisher.defer(subjects)
                raise
            # Before the connection goes back: whoever waits for it may commit the subject's next message.
            self.publish(appended)

    @asynccontextmanager
    async def pipelined(self) -> AsyncIterator[Transaction]:
        """Like ``transaction``, with statements in one pipeline: a round trip only where a result is fetched.

        The last round trip records the messages and commits. For hot paths; every draft needs a context of its own.
        """
        async with self._database.connection() as connection:
            insertion: table.Insertion | None = None
            try:
                async with connection.pipeline():
                    await connection.execute("BEGIN")
                    transaction = Transaction(connection, None)
                    yield transaction
                    if transaction.drafts:
                        insertion = await self._insert(connection, transaction.drafts)
                    await connection.execute("COMMIT")
                appended = _NOTHING if insertion is None else await self._answered(insertion)
            except BaseException:
                self._publisher.defer([] if insertion is None else insertion.subjects)
                await connection.rollback()
                raise
            self.publish(appended)

    async def append(self, connection: Connection, drafts: Sequence[MessageDraft]) -> Appended:
        """Record messages in the caller's transaction; the caller calls ``publish`` after the commit."""
        if not drafts:
            return _NOTHING
        return await self._answered(await self._insert(connection, drafts))

    def publish(self, appended: Appended) -> None:
        """Hand recorded messages to the publisher, in the order of the commits. Returns at once."""
        self._publisher.publish(appended.earlier)
        self._publisher.publish(appended.messages)
        self._sequences.remember(appended.messages)

    async def _insert(self, connection: Connection, drafts: Sequence[MessageDraft]) -> table.Insertion:
        return await table.insert(connection, drafts, self._writer, self._sequences.continues)

    async def _answered(self, insertion: table.Insertion) -> Appended:
        # Also of this process: of two commits in a row, the second one's answer may come first.
        earlier = [each for each in await insertion.earlier() if each.sequence > self._sequences.last(each.subject)]
        return Appended(earlier, await insertion.messages())

    async def outcome(self, command_id: str) -> OutboxMessage | None:
        """The event that ended a command, if it has ended."""
        async with self._database.connection() as connection:
            return await table.outcome(connection, command_id)

    async def payload(self, event_id: str, company_id: str) -> bytes | None:
        """The payload of a recorded event of that company."""
        async with self._database.connection() as connection:
            return await table.payload(connection, event_id, company_id)

    async def republish(self, event: OutboxMessage) -> None:
        """Send a recorded event again under its own id, after what still waits before it. Raises ``BusUnavailable``."""
        async with self._database.connection() as connection:
            waiting = await table.left_behind(connection, [event.subject])
        for earlier in waiting:
            if earlier.id < event.id:
                await self._publisher.republish(earlier)
        await self._publisher.republish(event)
