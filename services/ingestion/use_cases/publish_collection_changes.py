"""Publishes collections whose status, progress, file count or size has changed."""

from datetime import datetime
from typing import Final

from libs.contracts.messages import MessageContext
from libs.contracts.resources.collections import CollectionUpdated
from libs.eventing import Outbox
from libs.persistence import Database
from services.ingestion.adapters.postgres.collections import changed_since, record_changed

_BATCH: Final = 50


class PublishCollectionChanges:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox
        self._since: datetime | None = None

    async def __call__(self) -> int:
        """Publishes the changes since the last call. Returns the number of published collections."""
        changed, since = await changed_since(self._database, self._since)
        count = 0
        for start in range(0, len(changed), _BATCH):
            async with self._outbox.transaction() as transaction:
                batch = changed[start : start + _BATCH]
                for collection, correlation_id in await record_changed(transaction.connection, batch):
                    context = MessageContext(collection.company_id, correlation_id)
                    event = CollectionUpdated(collection=collection.public())
                    transaction.emit(event, subject=collection.id, context=context)
                    count += 1
        self._since = since
        return count
