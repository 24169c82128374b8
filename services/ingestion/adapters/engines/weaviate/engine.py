"""The search engine in a Weaviate server. Each index is a tenant."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

from weaviate.classes.query import Filter
from weaviate.classes.tenants import Tenant
from weaviate.collections.collection import CollectionAsync
from weaviate.exceptions import WeaviateInsertManyAllFailedError

from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.weaviate.connection import Address, Connection
from services.ingestion.adapters.engines.weaviate.schema import object_of, refusal
from services.ingestion.adapters.engines.weaviate.searching import WeaviateSearching
from services.ingestion.domain.engines import EngineUnavailable, IndexedChunk, IndexMissing

_MOST_OBJECTS = 200


class WeaviateEngine:
    """Implements Engine with Weaviate.

    Keyword scores are wrong until chunks are on disk: in Weaviate 1.35.2, nDCG is 0.03 instead of 0.53. `finish` writes
    them to disk by deactivating and reactivating the tenant.
    """

    name = "weaviate"

    def __init__(self, address: Address) -> None:
        self._connection = Connection(address)
        self._analysis = Analysis()

    async def create_index(self, index_id: str, dimensions: int) -> None:  # noqa: ARG002 - follows from the first vector
        async with self._connection.collection(index_id) as collection:
            await collection.tenants.create([Tenant(name=index_id)])

    async def drop_index(self, index_id: str) -> None:
        # A server that has lost its data doesn't have the collection.
        with suppress(IndexMissing):
            async with self._connection.collection(index_id) as collection:
                await collection.tenants.remove([index_id])

    async def existing(self, index_ids: Sequence[str]) -> set[str]:
        # A starting server may not know its tenants yet.
        await self._connection.ping()
        try:
            async with self._connection.collection(writes=False) as collection:
                return set(await collection.tenants.get_by_names(index_ids)) if index_ids else set()
        except IndexMissing:
            return set()

    async def write(self, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
        if not chunks:
            return
        objects = await asyncio.to_thread(lambda: [object_of(each, self._analysis) for each in chunks])
        async with self._connection.collection(index_id) as collection:
            tenant = collection.with_tenant(index_id)
            batches = [objects[start : start + _MOST_OBJECTS] for start in range(0, len(objects), _MOST_OBJECTS)]
            # Weaviate 1.35 flushes its vector index's log before it indexes the batch (shard_write_batch_objects.go).
            # Without another batch, which flushes the log, killing Weaviate would lose the vectors.
            for batch in [*batches, objects[-1:]]:
                try:
                    written = await tenant.data.insert_many(batch)
                except WeaviateInsertManyAllFailedError as problem:
                    raise refusal(index_id, [str(problem)]) from problem
                if written.has_errors:
                    raise refusal(index_id, {error.message for error in written.errors.values()})

    async def finish(self, index_id: str) -> None:
        async with self._connection.collection(index_id) as collection:
            await _existing(collection, index_id)
            await collection.tenants.deactivate([index_id])
            await collection.tenants.activate([index_id])

    async def delete_files(self, index_id: str, file_ids: Sequence[str]) -> None:
        try:
            async with self._connection.collection(index_id) as collection:
                tenant = collection.with_tenant(index_id)
                chosen = Filter.by_property("file_id").contains_any(list(file_ids))
                while (deleted := await tenant.data.delete_many(where=chosen)).matches:
                    if deleted.failed:
                        raise EngineUnavailable(f"Weaviate couldn't delete all passages ({deleted.failed} failed).")
        except IndexMissing:
            return

    async def count(self, index_id: str) -> int:
        async with self._connection.collection(index_id, writes=False) as collection:
            await _existing(collection, index_id)
            counted = await collection.with_tenant(index_id).aggregate.over_all(total_count=True)
            return counted.total_count or 0

    @asynccontextmanager
    async def searching(self, index_id: str) -> AsyncIterator[WeaviateSearching]:
        async with self._connection.collection(index_id, writes=False) as collection:
            yield WeaviateSearching(collection.with_tenant(index_id), self._analysis)

    async def close(self) -> None:
        await self._connection.close()


async def _existing(collection: CollectionAsync, index_id: str) -> None:
    if not await collection.tenants.exists(index_id):
        raise IndexMissing(index_id)
