"""An owner's database, outbox and publisher, without the rest of a service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from libs.eventing import IdentitySigner, MessageContext, MessageDraft, Outbox, OutboxSender, Publisher, Sweeper
from libs.persistence import Database, migrate
from tests.support import sample_owner
from tests.support.fake_producer import FakeProducer
from tests.support.sample_owner import NoteTaken

COMMAND = MessageContext("company-1", "correlation-1", "command-1")
PLAIN = MessageContext("company-1", "correlation-1")
SIGNER = IdentitySigner("a key of tests, long enough to sign with")


class EventOwner:
    """One process of an owner; ``url`` names a database that several of them share."""

    def __init__(self, url: str, *, max_size: int = 10) -> None:
        self.producer = FakeProducer()
        self.database = Database(url, name="test", max_size=max_size)
        sender = OutboxSender(self.producer, SIGNER, source="/aes/notes")
        self.publisher = Publisher(self.database, sender)
        self.sweeper = Sweeper(self.database, sender, self.publisher)
        self.outbox = Outbox(self.database, self.publisher)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def run(self, *, publishing: bool = True, sweeping: bool = False) -> None:
        runs = {}
        if publishing:
            runs |= {"publish": self.publisher.run, "mark": self.publisher.run_marking}
        if sweeping:
            runs |= {"sweep": self.sweeper.run}
        for name, run in runs.items():
            self._tasks[name] = asyncio.create_task(run(), name=name)

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        outcomes = await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self.database.close()
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    async def sweep(self) -> int:
        async with self.database.connection() as connection:
            return await self.sweeper.sweep(connection)

    async def emit(self, subject: str, *names: str, context: MessageContext = PLAIN) -> None:
        async with self.outbox.transaction(context) as transaction:
            for name in names:
                transaction.emit(NoteTaken(note_id=name), subject=subject)

    async def commit_without_publishing(self, subject: str, *names: str, context: MessageContext = PLAIN) -> None:
        """Simulates a process that ends right after its commit."""
        drafts = [MessageDraft(NoteTaken(note_id=name), subject=subject, context=context) for name in names]
        async with self.database.transaction() as connection:
            await self.outbox.append(connection, drafts)

    async def rows(self, query: str, *parameters: Any) -> Sequence[tuple[Any, ...]]:
        async with self.database.connection() as connection:
            return await (await connection.execute(query, parameters)).fetchall()

    async def age_everything(self) -> None:
        async with self.database.connection() as connection:
            await connection.execute("UPDATE outbox SET created_at = created_at - interval '1 minute'")

    def names(self) -> list[str]:
        """The notes of the delivered events, in order."""
        return [NoteTaken.decode(value).note_id for _, _, value, _ in self.producer.delivered]


@asynccontextmanager
async def event_owner(url: str, *, max_size: int = 10) -> AsyncIterator[EventOwner]:
    await asyncio.to_thread(migrate, url, sample_owner.MIGRATIONS)
    owner = EventOwner(url, max_size=max_size)
    await owner.database.open()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(owner.close)
        yield owner
