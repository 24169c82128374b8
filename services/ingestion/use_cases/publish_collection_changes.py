"""Publishes collections whose status, progress, file count or size has changed."""

from datetime import datetime
from typing import Final

from libs.contracts.messages import MessageContext
from libs.contracts.resources.collections import CollectionUpdated
from libs.eventing import Outbox
from services.ingestion.adapters.postgres.collections import PostgresCollectionChanges, PostgresCollectionPublisher

_BATCH: Final = 50


class PublishCollectionChanges:
    def __init__(self, changes: PostgresCollectionChanges, outbox: Outbox) -> None:
        self._changes = changes
        self._outbox = outbox
        self._since: datetime | None = None

    async def __call__(self) -> int:
        """Publishes the changes since the last call. Returns the number of published collections."""
        changed, since = await self._changes.changed_since(self._since)
        count = 0
        for start in range(0, len(changed), _BATCH):
            async with self._outbox.transaction() as transaction:
                publisher = PostgresCollectionPublisher(transaction)
                for update in await publisher.record_changed(changed[start : start + _BATCH]):
                    context = MessageContext(update.collection.company_id, update.correlation_id)
                    event = CollectionUpdated(collection=update.collection.public())
                    transaction.emit(event, subject=update.collection.id, context=context)
                    count += 1
        self._since = since
        return count
