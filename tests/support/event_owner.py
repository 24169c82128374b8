"""An owner's database, outbox and relay, without the rest of a service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from libs.contracts.messages import MessageContext
from libs.eventing import Outbox, Relay
from libs.persistence import Database, migrate
from tests.support import sample_owner
from tests.support.command_records import SIGNER
from tests.support.fake_producer import FakeProducer
from tests.support.sample_owner import NoteTaken

COMMAND = MessageContext("company-1", "correlation-1", "command-1")
PLAIN = MessageContext("company-1", "correlation-1")


class EventOwner:
    """One process of an owner; ``url`` names a database that several of them share."""

    def __init__(self, url: str) -> None:
        self.producer = FakeProducer()
        self.database = Database(url, name="test", timeout=30.0)
        self.relay = Relay(self.database, self.producer, SIGNER, source="/aes/notes")
        self.outbox = Outbox(self.database, self.relay)
        self._running: asyncio.Task[None] | None = None

    def run(self) -> None:
        self._running = asyncio.create_task(self.relay.run(), name="relay")

    async def kill(self) -> None:
        """Ends the relay like kill -9: what it has not marked stays unmarked."""
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
            if not self._running.cancelled():
                self._running.result()

    async def close(self) -> None:
        try:
            await self.kill()
        finally:
            await self.database.close()

    async def emit(self, subject: str, *names: str, context: MessageContext = PLAIN) -> None:
        async with self.outbox.transaction(context) as transaction:
            for name in names:
                transaction.emit(NoteTaken(note_id=name), subject=subject)

    async def commit_without_publishing(self, subject: str, *names: str, context: MessageContext = PLAIN) -> None:
        """Simulates a process that ends right after its commit."""
        async with Outbox(self.database).transaction(context) as transaction:
            for name in names:
                transaction.emit(NoteTaken(note_id=name), subject=subject)

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
async def event_owner(url: str) -> AsyncIterator[EventOwner]:
    await asyncio.to_thread(migrate, url, sample_owner.MIGRATIONS)
    owner = EventOwner(url)
    await owner.database.open()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(owner.close)
        yield owner
