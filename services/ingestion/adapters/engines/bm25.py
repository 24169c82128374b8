"""Computes BM25 as the inner product of a chunk's stored weights and a query's weights."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log

import numpy as np
import numpy.typing as npt

from services.ingestion.adapters.engines.analysis import number
from services.ingestion.domain.documents import TermCounts

K1 = 1.2
B = 0.75
# The average length is at least this, even if no text has any terms, because lengths are divided by it.
LEAST_AVERAGE_LENGTH = 1.0
# This is pgvector's limit for sparsevec. Only a chunk of about a hundred pages has more distinct terms.
_MOST_TERMS = 16_000


@dataclass(frozen=True, slots=True)
class TermWeights:
    """Term numbers with their weights, sorted by number."""

    terms: npt.NDArray[np.int32]
    weights: npt.NDArray[np.float32]


def counted(terms: Sequence[str]) -> dict[int, int]:
    return Counter(map(number, terms))


def chunk_weights(chunk: TermCounts, average_length: float) -> TermWeights:
    """Computes the weight of each term in a chunk, given the average chunk length."""
    terms, frequencies = chunk.numbers, chunk.counts.astype(np.float32)
    weights = frequencies * np.float32(K1 + 1) / (frequencies + np.float32(_norm(chunk.length, average_length)))
    if len(terms) > _MOST_TERMS:
        strongest = np.sort(np.argpartition(-weights, _MOST_TERMS)[:_MOST_TERMS])
        terms, weights = terms[strongest], weights[strongest]
    return TermWeights(terms, weights)


def recomputed_weights(given: TermWeights, length: int, old_average: float, average_length: float) -> TermWeights:
    """Adjusts a chunk's weights to a changed average length."""
    old = _norm(length, old_average)
    frequencies = np.maximum(np.rint(given.weights * old / (K1 + 1 - given.weights)), 1)
    weights = frequencies * (K1 + 1) / (frequencies + _norm(length, average_length))
    return TermWeights(given.terms, weights.astype(np.float32))


def rarity(chunks_with_term: float, chunks: float) -> float:
    """Returns a term's inverse document frequency, which is never negative."""
    return log(1 + (chunks - chunks_with_term + 0.5) / (chunks_with_term + 0.5))


def query_weights(counts: Mapping[int, int], frequencies: Mapping[int, float], chunks: float) -> TermWeights:
    """Computes the weights of a query's terms.

    `frequencies` maps a term to the number of chunks that contain it. A missing term counts as being in one chunk.
    """
    terms = np.array(sorted(counts), np.int32)
    weights = [
        counts[term] * rarity(min(frequencies.get(term, 1.0), chunks), max(chunks, 1.0)) for term in terms.tolist()
    ]
    return TermWeights(terms, np.array(weights, np.float32))


def _norm(length: int, average_length: float) -> float:
    return K1 * (1 - B + B * length / average_length)


def relative(score: float, terms: int) -> float:
    """Divides a score by the maximum score of a query with this many common terms."""
    return score / ((K1 + 1) * max(terms, 1))
