"""Embeds chunks and writes them to an index."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from services.ingestion.adapters.postgres.work_items import PostgresWorkItems
from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.embedding import Embedders
from services.ingestion.domain.engines import Engine, Engines, IndexedChunk, IndexMissing, Vector
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.runs import ItemKey, Token
from services.ingestion.use_cases.document_loader import Loaded

_SECONDS: Final = 0.5


class ProgressThrottle:
    """Reports a process's progress at most twice a second in each phase."""

    def __init__(self, items: PostgresWorkItems, clock: Callable[[], float]) -> None:
        self._items = items
        self._clock = clock
        self._written: dict[str, float] = {}

    async def report(self, token: Token, chunks: Mapping[ItemKey, int], phase: str) -> None:
        """Reports the items' phase. ``chunks`` maps items to their number of chunks, or 0 if unknown."""
        now = self._clock()
        if now - self._written.get(phase, -_SECONDS) >= _SECONDS:
            self._written[phase] = now
            await self._items.advance(token, chunks, phase)


_EMBEDDED_AT_ONCE: Final = 512
_WRITTEN_AT_ONCE: Final = 1000


async def indexed_chunks(
    embedders: Embedders, settings: IndexSettings, chunks: Sequence[tuple[str, Chunk]]
) -> list[IndexedChunk]:
    """Embeds the chunks that don't have vectors yet. ``chunks`` are pairs of a file's ID and a chunk."""
    texts = [chunk.text for _, chunk in chunks if chunk.vector is None]
    vectors: list[Vector] = []
    if texts:
        embedder = await embedders.embedder(settings.provider, settings.model, settings.dimensions)
        for start in range(0, len(texts), _EMBEDDED_AT_ONCE):
            vectors.extend(await embedder.embed(texts[start : start + _EMBEDDED_AT_ONCE]))
    embedded = iter(vectors)
    return [
        IndexedChunk(file_id, chunk, next(embedded) if chunk.vector is None else chunk.vector)
        for file_id, chunk in chunks
    ]


async def write(engine: Engine, index_id: str, chunks: Sequence[IndexedChunk]) -> None:
    for start in range(0, len(chunks), _WRITTEN_AT_ONCE):
        await engine.write(index_id, chunks[start : start + _WRITTEN_AT_ONCE])


@dataclass(frozen=True, slots=True)
class DocumentIndexer:
    items: PostgresWorkItems
    progress: ProgressThrottle
    embedders: Embedders
    engines: Engines

    async def index(self, token: Token, loaded: Sequence[Loaded]) -> None:
        """Writes the documents to their index. Safe to repeat. Raises any error of the embedder or the engine."""
        first = loaded[0].item
        index_id, settings = first.key.index_id, first.settings
        chunks = {each.item.key: len(each.chunks) for each in loaded}
        await self.progress.report(token, chunks, "embedding")
        chunks_of = [(each.item.key.file_id, chunk) for each in loaded for chunk in each.chunks]
        indexed = await indexed_chunks(self.embedders, settings, chunks_of)
        if index_id not in await self.items.writable([index_id]):
            return
        await self.progress.report(token, chunks, "indexing")
        engine = self.engines[settings.engine]
        try:
            await write(engine, index_id, indexed)
        except IndexMissing:
            if index_id in await self.items.writable([index_id]):
                raise
            return
        # The file, knowledge base or index may have been deleted during the write.
        if unwanted := await self.items.ingested(token, chunks):
            await engine.delete_files(index_id, [key.file_id for key in unwanted])
            await self.items.removed(token, list(unwanted))

    async def remove(self, token: Token, engine: str, keys: Sequence[ItemKey]) -> None:
        await self.engines[engine].delete_files(keys[0].index_id, [key.file_id for key in keys])
        await self.items.removed(token, keys)
