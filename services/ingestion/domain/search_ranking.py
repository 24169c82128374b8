"""Combines semantic similarity and keyword score into one score."""

from __future__ import annotations

SEMANTIC_SHARE = 0.55
CANDIDATES = 100
"""Minimum number of chunks that each kind of search contributes."""


def candidates(top_k: int) -> int:
    return max(CANDIDATES, 3 * top_k)


def combined(cosine: float, keyword: float, best_keyword: float) -> float:
    """0 to 1. `best_keyword`: the highest keyword score of the query, 0 when no chunk has any of its words.

    Both scores are kept as they are, not as ranks: on three labelled collections reciprocal ranks were worse
    than keywords alone on two, this is better than either on all (see docs/decisions).
    """
    by_words = keyword / best_keyword if best_keyword > 0 else 0.0
    return SEMANTIC_SHARE * min(max(cosine, 0.0), 1.0) + (1 - SEMANTIC_SHARE) * by_words
