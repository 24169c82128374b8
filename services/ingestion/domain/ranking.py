"""Ranks search candidates, in the same way for every engine."""

from collections.abc import Sequence
from typing import Final

from services.ingestion.domain.engines import Candidate, ChunkKey, Engine, Hit, Mode, Query

SEMANTIC_SHARE: Final = 0.55


async def search(engine: Engine, index_id: str, query: Query) -> list[Hit]:
    """Searches the index and returns up to ``query.top_k`` results, best first. Raises ``IndexMissing``."""
    if query.files.is_empty:
        return []
    async with engine.searching(index_id) as index:
        return await index.hits(ranked(query.mode, await index.candidates(query), query.top_k))


def ranked(mode: Mode, found: Sequence[Candidate], top_k: int) -> dict[ChunkKey, float]:
    """Returns the ``top_k`` best candidates with scores from 0 to 1, best first.

    Hybrid mode combines scores, because combining ranks was less accurate (docs/decisions/0024).
    """
    # A chunk found only by words is treated as being as distant as the most distant chunk found by meaning.
    furthest = min((each.cosine for each in found if each.cosine is not None), default=0.0)
    most_words = max((each.words for each in found if each.words is not None), default=0.0)

    def score(each: Candidate) -> float:
        cosine = furthest if each.cosine is None else each.cosine
        words = max(each.words or 0.0, 0.0)
        if mode == "semantic":
            return cosine
        if mode == "keyword":
            return words / (words + 1)
        by_words = words / most_words if most_words > 0 else 0.0
        return SEMANTIC_SHARE * max(cosine, 0.0) + (1 - SEMANTIC_SHARE) * by_words

    # Scores are only clamped after sorting, to keep the order of cosines below zero or, due to rounding, above one.
    scores = {each.key: (-score(each), each.key[0], each.position) for each in found}
    best = sorted(scores, key=lambda key: scores[key])[:top_k]
    return {key: min(max(-scores[key][0], 0.0), 1.0) for key in best}
