"""Transactions whose events are recorded with the state they tell of."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event
from libs.eventing import _outbox_table as table
from libs.eventing._messages import EventDraft, MessageContext
from libs.eventing._outbox_table import RecordedEvent
from libs.eventing._publisher import Publisher
from libs.eventing._sequence_cache import SequenceCache
from libs.persistence import Connection, Database


@dataclass(frozen=True, slots=True)
class Appended:
    """Events recorded in a transaction; to be published once it is committed.

    ``earlier`` are those of the same subjects that were recorded before and are not on their way yet.
    """

    earlier: Sequence[RecordedEvent]
    events: Sequence[RecordedEvent]


_NOTHING: Final = Appended((), ())


class Transaction:
    """A database transaction and the events that become true with it."""

    def __init__(self, connection: Connection, context: MessageContext | None) -> None:
        self.connection = connection
        self.drafts: list[EventDraft] = []
        self._context = context

    def emit(
        self, event: Event, *, subject: str, sequence: int | None = None, context: MessageContext | None = None
    ) -> None:
        """Record an event about ``subject`` when the transaction commits; it is published right after."""
        context = context or self._context
        if context is None:
            raise ValueError("an event needs a message context")
        self.drafts.append(EventDraft(event, subject=subject, context=context, sequence=sequence))


class Outbox:
    """Records events in the transaction of the state they tell of, and publishes them after the commit."""

    def __init__(self, database: Database, publisher: Publisher, *, writer: str | None = None) -> None:
        self._database = database
        self._publisher = publisher
        self._writer = writer or new_id()
        self._sequences = SequenceCache()

    @asynccontextmanager
    async def transaction(self, context: MessageContext | None = None) -> AsyncIterator[Transaction]:
        """A transaction that ends with its events in the outbox, or with nothing at all."""
        async with self._database.connection() as connection:
            subjects: list[str] = []
            try:
                async with connection.transaction():
                    transaction = Transaction(connection, context)
                    yield transaction
                    appended = await self.append(connection, transaction.drafts)
                    subjects = [event.subject for event in appended.events]
            except BaseException:
                # Also when the commit was sent and its answer got lost: the rows may be there.
                self._publisher.defer(subjects)
                raise
            # Before the connection goes back: whoever waits for it may commit the subject's next event.
            self.publish(appended)

    @asynccontextmanager
    async def pipelined(self) -> AsyncIterator[Transaction]:
        """Like ``transaction``, with statements in one pipeline: a round trip only where a result is fetched.

        Recording the events and the commit are the last of them together. For hot paths with explicit origins.
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

    async def append(self, connection: Connection, drafts: Sequence[EventDraft]) -> Appended:
        """Record events in a transaction of the caller's, who calls ``publish`` after the commit."""
        if not drafts:
            return _NOTHING
        return await self._answered(await self._insert(connection, drafts))

    def publish(self, appended: Appended) -> None:
        """Hand recorded events to the publisher, in the order of the commits. Returns at once."""
        self._publisher.publish(appended.earlier)
        self._publisher.publish(appended.events)
        self._sequences.remember(appended.events)

    async def _insert(self, connection: Connection, drafts: Sequence[EventDraft]) -> table.Insertion:
        return await table.insert(connection, drafts, self._writer, self._sequences.continues)

    async def _answered(self, insertion: table.Insertion) -> Appended:
        # Also of this process: of two commits in a row, the second one's answer may come first.
        waiting = [event for event in await insertion.earlier() if event.sequence > self._sequences.last(event.subject)]
        return Appended(waiting, await insertion.events())

    async def outcome(self, command_id: str) -> RecordedEvent | None:
        """The event that ended a command, if it has ended."""
        async with self._database.connection() as connection:
            return await table.outcome(connection, command_id)

    async def payload(self, event_id: str, company_id: str) -> bytes | None:
        """The payload of a recorded event of that company."""
        async with self._database.connection() as connection:
            return await table.payload(connection, event_id, company_id)

    async def republish(self, event: RecordedEvent) -> None:
        """Send a recorded event again under its own id, after what still waits before it. Raises ``BusUnavailable``."""
        async with self._database.connection() as connection:
            waiting = await table.left_behind(connection, [event.subject])
        for earlier in waiting:
            if earlier.id < event.id:
                await self._publisher.republish(earlier)
        await self._publisher.republish(event)
