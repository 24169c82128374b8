"""What the service does by itself for files and collections, for as long as it runs."""

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from libs.contracts.events.ingestion import CollectionUpdated
from libs.eventing import MessageContext, Outbox, Transaction
from libs.objects import ObjectStore
from services.ingestion.domain.ports.files import CollectionChanges, CollectionPublisher, UnusedBlobs
from services.ingestion.use_cases.collect_garbage import collect_garbage

_WATCH_SECONDS: Final = 1.0
_COLLECT_SECONDS: Final = 600.0
_AT_ONCE: Final = 50


class CollectionNews:
    """Tells listeners when status, progress, count or size of a collection has changed by itself."""

    def __init__(
        self, watch: CollectionChanges, outbox: Outbox, teller: Callable[[Transaction], CollectionPublisher]
    ) -> None:
        self._watch = watch
        self._outbox = outbox
        self._publisher = teller
        self._since: datetime | None = None

    async def run(self) -> None:
        while True:
            await self.tell()
            await asyncio.sleep(_WATCH_SECONDS)

    async def tell(self) -> int:
        """Tell what is new since the last time; returns how many collections that were."""
        changed_since, since = await self._watch.changed_since(self._since)
        count = 0
        for start in range(0, len(changed_since), _AT_ONCE):
            async with self._outbox.transaction() as transaction:
                for news in await self._publisher(transaction).pending(changed_since[start : start + _AT_ONCE]):
                    context = MessageContext(news.collection.company_id, news.correlation_id)
                    event = CollectionUpdated(collection=news.collection.public())
                    transaction.emit(event, subject=news.collection.id, context=context)
                    count += 1
        self._since = since
        return count


async def collect(unused_blobs: UnusedBlobs, store: ObjectStore) -> None:
    """Remove what nothing refers to, every ten minutes."""
    while True:
        await collect_garbage(unused_blobs, store)
        await asyncio.sleep(_COLLECT_SECONDS)
