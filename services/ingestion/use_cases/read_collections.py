"""Read collections of a company, with what is in them at this moment."""

from libs.contracts.api.files import AvailableCollections, Collection, CollectionPage
from libs.contracts.identity import Identity
from services.ingestion.domain.collections import CollectionNotFound
from services.ingestion.domain.ports.files import CollectionReader


class CollectionReading:
    def __init__(self, collections: CollectionReader) -> None:
        self._collections = collections

    async def page(self, caller: Identity, *, limit: int, offset: int) -> CollectionPage:
        found, total = await self._collections.page(caller.company_id, limit=limit, offset=offset)
        return CollectionPage(
            collections=[each.public() for each in found], total=total, has_more=offset + len(found) < total
        )

    async def one(self, caller: Identity, collection_id: str) -> Collection:
        collection = await self._collections.get(caller.company_id, collection_id)
        if collection is None:
            raise CollectionNotFound()
        return collection.public()

    async def available(self, caller: Identity) -> AvailableCollections:
        """Every collection, as something to make a knowledge base from."""
        found = [each.available() for each in await self._collections.all(caller.company_id)]
        return AvailableCollections(success=True, collections=found, count=len(found))
