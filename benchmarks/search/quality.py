"""Retrieval quality on a labelled collection, with the service's own chunks and embeddings."""

from collections.abc import Sequence

from benchmarks.search.collection import Labelled
from benchmarks.search.figures import MODES, Ranked
from benchmarks.search.measures import DEPTH, quality
from libs.contracts.api.knowledge import ChunkingStrategy
from libs.contracts.identifiers import new_id
from services.ingestion.adapters.chunking.cut import cut
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.embedding import Embedder
from services.ingestion.domain.engines import Engine, Hit, IndexedChunk, Mode, Query
from services.ingestion.domain.ranking import search

BATCH = 256
# Several chunks of one document may come before the tenth document.
_CHUNKS_FOR_A_DOCUMENT = 5


async def rank(engine: Engine, embedder: Embedder, labelled: Labelled) -> list[Ranked]:
    index_id = new_id()
    await engine.create_index(index_id, embedder.dimensions)
    try:
        await _fill(engine, embedder, index_id, labelled)
        found = []
        for mode in MODES:
            rankings = {}
            for query, text in labelled.queries.items():
                rankings[query] = _documents(await _search(engine, embedder, index_id, text, mode))
            found.append(Ranked(engine.name, labelled.name, mode, quality(rankings, labelled.judgements)))
        return found
    finally:
        await engine.drop_index(index_id)


async def _fill(engine: Engine, embedder: Embedder, index_id: str, labelled: Labelled) -> None:
    settings = ChunkingStrategy()
    chunks = [
        (identity, chunk)
        for identity, text in labelled.documents.items()
        for chunk in cut(ParsedDocument(text), settings, identity)
    ]
    for start in range(0, len(chunks), BATCH):
        batch = chunks[start : start + BATCH]
        vectors = await embedder.embed([chunk.text for _, chunk in batch])
        passages = [
            IndexedChunk(chunk.id, identity, chunk.index, chunk.text, vector, chunk.start, chunk.end)
            for (identity, chunk), vector in zip(batch, vectors, strict=True)
        ]
        await engine.write(index_id, passages)
    await engine.finish(index_id)


async def _search(engine: Engine, embedder: Embedder, index_id: str, text: str, mode: Mode) -> list[Hit]:
    vector = None if mode == "keyword" else (await embedder.embed([text]))[0]
    return await search(engine, index_id, Query(text, vector, mode, DEPTH * _CHUNKS_FOR_A_DOCUMENT))


def _documents(hits: Sequence[Hit]) -> list[str]:
    return list(dict.fromkeys(hit.file_id for hit in hits))
