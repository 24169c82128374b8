"""Chooses the chunks in which frequent words of a query weigh most."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, product
from math import prod
from typing import Final

from services.ingestion.adapters.engines.pgvector.term_levels import LEAST_WEIGHTS, number_at

# Of more words all combinations of levels would be too many.
_MOST_WORDS: Final = 4
# Each is a scan of the inverted index.
_MOST_COMBINATIONS: Final = 24
_ABSENT: Final = -1
_LEVELS: Final = range(_ABSENT, len(LEAST_WEIGHTS))
Levels = tuple[int, ...]


def strong_words(
    terms: Sequence[tuple[int, float]], chunks_with: Mapping[int, float], chunks: float, most: float
) -> tuple[list[list[int]], float]:
    """Combinations of numbers of terms at their levels, and about how many chunks have all numbers of one of them.

    ``terms``: with their weights in the query; beyond four the heaviest count. ``chunks_with``: in how many of the
    ``chunks`` a number occurs, of terms as if they were independent of each other. The chunks of the highest scores
    are taken first, up to about ``most``, but all of the best levels.
    """
    if not chunks:
        return [], 0.0
    heaviest = sorted(terms, key=lambda each: -each[1])[:_MOST_WORDS]
    shares = [_shares(term, chunks_with, chunks) for term, _ in heaviest]
    by_score = sorted(product(_LEVELS, repeat=len(heaviest)), key=lambda levels: (_score(levels, heaviest), levels))
    chosen: set[Levels] = set()
    expected = 0.0
    for levels in reversed(by_score):
        more = chunks * prod(share[level] for share, level in zip(shares, levels, strict=True))
        if expected and expected + more > most:
            break
        chosen.add(levels)
        expected += more
    lowest = [_numbers(levels, heaviest) for levels in chosen if chosen.isdisjoint(_below(levels))]
    lowest.sort(key=lambda numbers: prod(chunks_with.get(number, 0.0) / chunks for number in numbers), reverse=True)
    return lowest[:_MOST_COMBINATIONS], expected


def _shares(term: int, chunks_with: Mapping[int, float], chunks: float) -> dict[int, float]:
    """The share of chunks that have the term at exactly each level."""
    reached = [chunks_with.get(number_at(term, level), 0.0) / chunks for level in range(len(LEAST_WEIGHTS))]
    exactly = [max(0.0, lower - higher) for lower, higher in pairwise([1.0, *reached, 0.0])]
    return dict(zip(_LEVELS, exactly, strict=True))


def _score(levels: Levels, terms: Sequence[tuple[int, float]]) -> float:
    """About the least score of a chunk with the terms at these levels."""
    return sum(
        weight * LEAST_WEIGHTS[level] for level, (_, weight) in zip(levels, terms, strict=True) if level != _ABSENT
    )


def _below(levels: Levels) -> Iterator[Levels]:
    """With one term at the level below."""
    for place, level in enumerate(levels):
        if level != _ABSENT:
            yield (*levels[:place], level - 1, *levels[place + 1 :])


def _numbers(levels: Levels, terms: Sequence[tuple[int, float]]) -> list[int]:
    return [number_at(term, level) for level, (term, _) in zip(levels, terms, strict=True) if level != _ABSENT]
