"""Transactional outbox: messages are recorded with the state that they report and published after the commit."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from libs.contracts.identity import Identity
from libs.contracts.messages import Command, Event
from libs.eventing import _outbox_table as table
from libs.eventing._messages import MessageContext, MessageDraft
from libs.eventing._outbox_table import OutboxMessage
from libs.eventing._publisher import Publisher
from libs.persistence import Connection, Database, pipeline

_REMEMBERED: Final = 10_000


class Transaction:
    """A database transaction and the messages that it records in the outbox."""

    def __init__(self, connection: Connection, context: MessageContext | None) -> None:
        self.connection = connection
        self.drafts: list[MessageDraft] = []
        self._context = context

    def emit(
        self,
        event: Event,
        *,
        subject: str,
        owner_id: str | None = None,
        sequence: int | None = None,
        context: MessageContext | None = None,
    ) -> None:
        """Record an event about ``subject``; it is published right after the commit.

        ``owner_id`` is the user who may see it when others may not; left out, it is that of the context.
        """
        context = context or self._context
        if context is None:
            raise ValueError("an event needs a message context")
        if owner_id is not None:
            context = replace(context, owner_id=owner_id)
        self.drafts.append(MessageDraft(event, subject=subject, context=context, sequence=sequence))

    async def begin(self, *subjects: str) -> None:
        """Makes each subject known with its first event, which is emitted with the number 1.

        Saves the round trip in which a number is fetched. Only for subjects that this transaction creates.
        """
        await table.begin(self.connection, subjects)

    def send(
        self, command: Command, *, command_id: str, subject: str, identity: Identity, context: MessageContext
    ) -> None:
        """Record a command to another service in the name of ``identity``; it is sent right after the commit.

        ``subject`` is the id of the other service's entity: commands of one subject arrive in order. A command that
        was not accepted within three days is rejected. Its outcome arrives as an event with this causation id.
        """
        context = replace(context, causation_id=None, owner_id=None)
        self.drafts.append(
            MessageDraft(command, subject=subject, context=context, message_id=command_id, identity=identity)
        )


class Outbox:
    """Runs transactions that record messages, and publishes those after the commit.

    Without a ``publisher`` the messages are left to another process's sweeper.
    """

    def __init__(self, database: Database, publisher: Publisher | None = None) -> None:
        self._database = database
        self._publisher = publisher
        self._sequences = SequenceCache()

    @asynccontextmanager
    async def transaction(self, context: MessageContext | None = None) -> AsyncIterator[Transaction]:
        """A transaction that ends with its messages in the outbox, or with nothing at all."""
        async with self._database.connection() as connection:
            recorded: Sequence[OutboxMessage] = ()
            try:
                async with connection.transaction():
                    transaction = Transaction(connection, context)
                    yield transaction
                    recorded = await self.append(connection, transaction.drafts)
            except BaseException:
                # Also when the commit was sent and its answer got lost: the rows may be there.
                self._defer([message.subject for message in recorded])
                raise
            # Before the connection goes back: another transaction that waits for it may go on with the subject.
            self.publish(recorded)

    @asynccontextmanager
    async def pipelined(self, *, recording_where: str = "true") -> AsyncIterator[Transaction]:
        """Like ``transaction``, with statements in one pipeline: a round trip only where a result is fetched.

        The last round trip records the messages and commits. For hot paths; every draft needs a context of its own.
        ``recording_where``: SQL about ``given.subject``, so that messages can be given before the results that they
        depend on are known. Those of which it does not hold are not recorded.
        """
        async with self._database.connection() as connection:
            insertion: table.Insertion | None = None
            try:
                async with pipeline(connection) as statements:
                    statements.command(b"BEGIN")
                    transaction = Transaction(connection, None)
                    yield transaction
                    if transaction.drafts:
                        insertion = await self._insert(connection, transaction.drafts, recording_where)
                    statements.command(b"COMMIT")
                recorded = [] if insertion is None else await self._recorded(insertion)
            except BaseException:
                self._defer([] if insertion is None else insertion.subjects)
                await connection.rollback()
                raise
            self.publish(recorded)

    async def append(self, connection: Connection, drafts: Sequence[MessageDraft]) -> Sequence[OutboxMessage]:
        """Record messages in the caller's transaction; the caller calls ``publish`` with the result after the commit.

        The result begins with messages of the same subjects that were recorded before and may not have been sent.
        """
        return await self._recorded(await self._insert(connection, drafts)) if drafts else ()

    def publish(self, recorded: Sequence[OutboxMessage]) -> None:
        """Hand recorded messages to the publisher, in the order of the commits. Returns at once."""
        if self._publisher is not None:
            self._publisher.publish(recorded)
        self._sequences.remember(recorded)

    def send_now(self) -> None:
        """Send committed messages that still linger, because something that is not recorded is about to follow them."""
        if self._publisher is not None:
            self._publisher.send_now()

    def _defer(self, subjects: Sequence[str]) -> None:
        if self._publisher is not None:
            self._publisher.defer(subjects)

    async def _insert(
        self, connection: Connection, drafts: Sequence[MessageDraft], condition: str = "true"
    ) -> table.Insertion:
        return await table.insert(connection, drafts, self._sequences.continues, condition)

    async def _recorded(self, insertion: table.Insertion) -> list[OutboxMessage]:
        # Earlier ones may be of this process: of two commits in a row, the second one's answer may come first.
        earlier = [each for each in await insertion.earlier() if each.sequence > self._sequences.last(each.subject)]
        return earlier + await insertion.messages()

    async def outcome(self, command_id: str) -> OutboxMessage | None:
        """The event that ended a command, if it has ended."""
        async with self._database.connection() as connection:
            return await table.outcome(connection, command_id)

    async def events(self, subject: str, company_id: str, *, after: int) -> list[OutboxMessage]:
        """The recorded events of a subject of that company with a sequence above ``after``, in order."""
        async with self._database.connection() as connection:
            return await table.events(connection, subject, company_id, after)

    async def payload(self, event_id: str, company_id: str) -> bytes | None:
        """The payload of a recorded event of that company."""
        async with self._database.connection() as connection:
            return await table.payload(connection, event_id, company_id)

    async def republish(self, event: OutboxMessage) -> None:
        """Send a recorded event again under its own id, after what still waits before it. Raises ``BusUnavailable``."""
        assert self._publisher is not None, "an outbox of a process that handles commands has a publisher"
        async with self._database.connection() as connection:
            waiting = await table.left_behind(connection, [event.subject])
        for earlier in waiting:
            if earlier.id < event.id:
                await self._publisher.republish(earlier)
        await self._publisher.republish(event)


class SequenceCache:
    """The newest sequence numbers of the subjects that this process recorded last.

    A subject's numbers have no gaps, and the process that recorded a number has published or deferred everything
    before it. So only a number that continues another process's makes a look for unpublished messages necessary.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[str, int] = OrderedDict()

    def continues(self, subject: str, sequence: int) -> bool:
        """Whether this number begins its subject or follows one that this process recorded."""
        return sequence == 1 or self._last.get(subject) == sequence - 1

    def last(self, subject: str) -> int:
        """The newest number of the subject that this process has published, 0 if it knows none."""
        return self._last.get(subject, 0)

    def remember(self, committed: Iterable[OutboxMessage]) -> None:
        """Note messages of a committed transaction, in their order."""
        for message in committed:
            self._last[message.subject] = message.sequence
            self._last.move_to_end(message.subject)
        while len(self._last) > _REMEMBERED:
            self._last.popitem(last=False)
