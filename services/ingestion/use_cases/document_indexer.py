"""Embeds chunks and writes them into an index while index, knowledge base and file exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final

import numpy as np

from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.embedding import Embedders, Vectors
from services.ingestion.domain.engines import IndexedChunk, IndexMissing, Vector
from services.ingestion.domain.knowledge_bases import IndexSettings
from services.ingestion.domain.ports.knowledge_bases import Engines, WorkItems
from services.ingestion.domain.runs import ItemKey, Token
from services.ingestion.use_cases.document_loader import Loaded
from services.ingestion.use_cases.progress_throttle import ProgressThrottle

_EMBEDDED_AT_ONCE: Final = 512
_WRITTEN_AT_ONCE: Final = 1000


class DocumentIndexer:
    def __init__(self, items: WorkItems, progress: ProgressThrottle, embedders: Embedders, engines: Engines) -> None:
        self._items = items
        self._progress = progress
        self._embedders = embedders
        self._engines = engines

    async def index(self, token: Token, loaded: Sequence[Loaded]) -> None:
        """Indexes documents of one index. Safe to repeat; raises what embedder and engine raise."""
        first = loaded[0].item
        index_id, settings = first.key.index_id, first.settings
        chunks = {each.item.key: len(each.chunks) for each in loaded}
        await self._progress.report(token, chunks, "embedding")
        chunks_of = [(each.item.key.file_id, chunk) for each in loaded for chunk in each.chunks]
        vectors = await self._embed(settings, [chunk for _, chunk in chunks_of if chunk.vector is None])
        if index_id not in await self._items.writable([index_id]):
            return
        await self._progress.report(token, chunks, "indexing")
        engine = self._engines[settings.engine]
        passages = iter(_indexed_chunks(chunks_of, vectors))
        try:
            while some := list(islice(passages, _WRITTEN_AT_ONCE)):
                await engine.write(index_id, some)
        except IndexMissing:
            if index_id in await self._items.writable([index_id]):
                raise
            return
        # File, knowledge base or index may have been deleted during the write.
        if unwanted := await self._items.ingested(token, chunks):
            await engine.delete_files(index_id, [key.file_id for key in unwanted])
            await self._items.removed(token, list(unwanted))

    async def remove(self, token: Token, engine: str, keys: Sequence[ItemKey]) -> None:
        """Removes files from one index."""
        await self._engines[engine].delete_files(keys[0].index_id, [key.file_id for key in keys])
        await self._items.removed(token, keys)

    async def _embed(self, settings: IndexSettings, chunks: Sequence[Chunk]) -> Sequence[Vector] | Vectors:
        if not chunks:
            return ()
        embedder = await self._embedders.embedder(settings.provider, settings.model, settings.dimensions)
        texts = [chunk.text for chunk in chunks]
        parts = [
            await embedder.embed(texts[start : start + _EMBEDDED_AT_ONCE])
            for start in range(0, len(texts), _EMBEDDED_AT_ONCE)
        ]
        return np.concatenate(parts)


def _indexed_chunks(chunks: Sequence[tuple[str, Chunk]], vectors: Iterable[Vector]) -> list[IndexedChunk]:
    """``vectors``: of the chunks that have none, in their order."""
    others = iter(vectors)
    return [
        IndexedChunk(
            chunk_id=chunk.id,
            file_id=file_id,
            position=chunk.index,
            text=chunk.text,
            vector=next(others) if chunk.vector is None else chunk.vector,
            start=chunk.start,
            end=chunk.end,
            page=chunk.page,
            row=chunk.row,
            terms=chunk.terms,
        )
        for file_id, chunk in chunks
    ]
