"""Passages for engines to hold, with vectors that say what they are about."""

from collections.abc import Sequence

import numpy as np

from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.engines import Engine, FileSelection, IndexedChunk, Mode, Query, Vector

DIMENSIONS = 4
SEA, MOUNTAIN, CITY = ([1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0])


def vector(values: Sequence[float]) -> Vector:
    array = np.asarray(values, np.float32)
    return array / np.linalg.norm(array)


def chunk(
    chunk_id: str, text: str, about: Sequence[float] = SEA, *, file_id: str = "file-1", position: int = 0
) -> IndexedChunk:
    start = position * 100
    passage = Chunk(chunk_id, position, text, start, start + len(text), page=position + 1)
    return IndexedChunk(file_id, passage, vector(about))


def query(
    text: str,
    about: Sequence[float] | None = None,
    *,
    mode: Mode = "hybrid",
    top_k: int = 10,
    only: set[str] | None = None,
    without: set[str] | None = None,
) -> Query:
    selection = FileSelection(None if only is None else frozenset(only), frozenset(without or ()))
    return Query(text, None if about is None else vector(about), mode, top_k, selection)


async def chunk_ids(engine: Engine, index_id: str, file_id: str, dimensions: int = 256) -> list[str]:
    """Ids of everything that the index has of a file, in order."""
    everything = query("", [1.0] * dimensions, mode="semantic", top_k=10_000, only={file_id})
    async with engine.searching(index_id) as index:
        found = await index.candidates(everything)
    return [each.key[1] for each in sorted(found, key=lambda each: each.position)]
