"""Computes chunks' vectors and terms in the parsing process, to keep the service's event loop responsive."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

import numpy as np

from services.ingestion.adapters.embeddings import static
from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.domain.documents import Chunk, TermCounts
from services.ingestion.domain.embedding import EmbeddingRefused, Vectors
from services.ingestion.domain.knowledge_bases import IndexSettings

# The number of chunks is limited, because a file's time limit is only meant for parsing.
_MOST_CHUNKS: Final = 2000
_FLOAT, _INTEGER = np.dtype("<f4"), np.dtype("<i4")
Extra = tuple[Vectors | None, TermCounts | None]


def wanted(index: IndexSettings) -> dict[str, Any] | None:
    """Returns what the parsing process should compute, or None if there's nothing to compute.

    The process can't call embedding servers.
    """
    embeds = index.provider == static.PROVIDER
    counts = index.engine == "pgvector"
    return {"dimensions": index.dimensions if embeds else 0, "terms": counts} if embeds or counts else None


def prepare(chunks: Sequence[Chunk], wanted: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
    """Computes the chunks' vectors and terms. Returns them as a JSON header and bytes."""
    if not chunks or len(chunks) > _MOST_CHUNKS:
        return {}, b""
    texts = [chunk.text for chunk in chunks]
    vectors = _embedded(texts, wanted["dimensions"])
    terms = [_analysis().counts(text) for text in texts] if wanted["terms"] else []
    columns = [[len(each.numbers) for each in terms], [each.length for each in terms]]
    body = b"".join(
        (
            vectors.astype(_FLOAT).tobytes(),
            *(np.array(column, _INTEGER).tobytes() for column in columns),
            *(each.numbers.astype(_INTEGER).tobytes() for each in terms),
            *(each.counts.astype(_INTEGER).tobytes() for each in terms),
        )
    )
    return {"dimensions": vectors.shape[1], "terms": bool(terms)}, body


def prepared(head: dict[str, Any], body: bytes) -> Iterable[Extra]:
    """Decodes the chunks' vectors and terms. Raises ValueError if the bytes are inconsistent."""
    number = len(head["chunks"])
    dimensions, has_terms = head.get("dimensions", 0), head.get("terms", False)
    size = number * dimensions
    vectors: Iterable[Vectors | None] = repeat(None, number)
    if dimensions:
        vectors = np.frombuffer(body, _FLOAT, size).reshape(number, dimensions)
    terms: Iterable[TermCounts | None] = repeat(None, number)
    if has_terms:
        terms = _unpacked(np.frombuffer(body, _INTEGER, offset=size * _FLOAT.itemsize), number)
    return zip(vectors, terms, strict=True)


def _unpacked(values: np.ndarray[Any, np.dtype[np.int32]], number: int) -> list[TermCounts]:
    sizes, lengths, values = values[:number], values[number : 2 * number].tolist(), values[2 * number :]
    ends = np.cumsum(sizes)
    total = int(ends[-1])
    if len(values) != 2 * total or sizes.min() < 0:
        raise ValueError("incomplete term counts")
    numbers, counts = np.split(values[:total], ends[:-1]), np.split(values[total:], ends[:-1])
    return [TermCounts(*each) for each in zip(numbers, counts, lengths, strict=True)]


def _embedded(texts: Sequence[str], dimensions: int) -> Vectors:
    if dimensions:
        try:
            return _embedder(dimensions).embed_here(texts)
        except EmbeddingRefused:
            # The service will get the same error and report it.
            pass
    return np.empty((0, 0), np.float32)


@lru_cache
def _embedder(dimensions: int) -> static.StaticEmbedder:
    return static.StaticEmbedder(dimensions)


@lru_cache
def _analysis() -> Analysis:
    return Analysis()
