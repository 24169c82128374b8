"""Publishes collections whose status, progress, count or size has changed because their files did."""

from collections.abc import Callable
from datetime import datetime
from typing import Final

from libs.contracts.events.ingestion import CollectionUpdated
from libs.contracts.messages import MessageContext
from libs.eventing import Outbox, Transaction
from services.ingestion.domain.ports.files import CollectionChanges, CollectionPublisher

_BATCH: Final = 50


class PublishCollectionChanges:
    def __init__(
        self, changes: CollectionChanges, outbox: Outbox, publisher: Callable[[Transaction], CollectionPublisher]
    ) -> None:
        self._changes = changes
        self._outbox = outbox
        self._publisher = publisher
        self._since: datetime | None = None

    async def __call__(self) -> int:
        """Covers the time since the last call; returns how many collections were published."""
        changed, since = await self._changes.changed_since(self._since)
        count = 0
        for start in range(0, len(changed), _BATCH):
            async with self._outbox.transaction() as transaction:
                for update in await self._publisher(transaction).pending(changed[start : start + _BATCH]):
                    context = MessageContext(update.collection.company_id, update.correlation_id)
                    event = CollectionUpdated(collection=update.collection.public())
                    transaction.emit(event, subject=update.collection.id, context=context)
                    count += 1
        self._since = since
        return count
