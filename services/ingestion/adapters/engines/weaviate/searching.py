"""Searches a tenant: Weaviate ranks by vectors and by words, which are combined here."""

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

from weaviate.classes.query import Filter, MetadataQuery
from weaviate.collections.classes.filters import _Filters
from weaviate.collections.collection import CollectionAsync

from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.bm25 import K1
from services.ingestion.adapters.engines.weaviate.schema import RETURNED, hit_of
from services.ingestion.domain.engines import FileSelection, Hit, Query
from services.ingestion.domain.search import candidates, combined


async def search(tenant: CollectionAsync, analysis: Analysis, query: Query) -> list[Hit]:
    terms = [] if query.mode == "semantic" else analysis.terms(query.text)
    if query.mode == "keyword":
        if not terms:
            return []
        found = await _by_words(tenant, terms, query, query.top_k)
        scores = {place: _share(score, len(terms)) for place, score in found.items()}
    elif terms:
        scores = await _by_both(tenant, query, terms)
    else:
        scores = await _by_meaning(tenant, query, query.top_k)
    best = sorted(scores, key=lambda place: scores[place], reverse=True)[: query.top_k]
    return await _hits(tenant, {place: min(max(scores[place], 0.0), 1.0) for place in best})


async def _by_both(tenant: CollectionAsync, query: Query, terms: Sequence[str]) -> dict[UUID, float]:
    depth = candidates(query.top_k)
    by_meaning, by_words = await asyncio.gather(
        _by_meaning(tenant, query, depth), _by_words(tenant, terms, query, depth)
    )
    best = max(by_words.values(), default=0.0)
    # A chunk found by words only is no closer than the last one found by vectors.
    cosine = min(by_meaning.values(), default=0.0)
    return {
        place: combined(by_meaning.get(place, cosine), by_words.get(place, 0.0), best)
        for place in by_meaning.keys() | by_words.keys()
    }


async def _by_meaning(tenant: CollectionAsync, query: Query, limit: int) -> dict[UUID, float]:
    assert query.vector is not None
    answer = await tenant.query.near_vector(
        query.vector.tolist(),
        filters=_filter(query.files),
        limit=limit,
        return_metadata=MetadataQuery(distance=True),
        return_properties=[],
    )
    return {each.uuid: 1 - (each.metadata.distance or 0.0) for each in answer.objects}


async def _by_words(tenant: CollectionAsync, terms: Sequence[str], query: Query, limit: int) -> dict[UUID, float]:
    answer = await tenant.query.bm25(
        " ".join(terms),
        query_properties=["terms"],
        filters=_filter(query.files),
        limit=limit,
        return_metadata=MetadataQuery(score=True),
        return_properties=[],
    )
    return {each.uuid: each.metadata.score or 0.0 for each in answer.objects}


async def _hits(tenant: CollectionAsync, scores: Mapping[UUID, float]) -> list[Hit]:
    """In the order of the scores, without chunks that were deleted meanwhile."""
    if not scores:
        return []
    answer = await tenant.query.fetch_objects_by_ids(scores, limit=len(scores), return_properties=RETURNED)
    found = {each.uuid: each.properties for each in answer.objects}
    return [hit_of(found[place], score) for place, score in scores.items() if place in found]


def _share(score: float, terms: int) -> float:
    """0 to 1 for a score without an upper limit; one half when every word counts as a common one at its best."""
    return score / (score + (K1 + 1) * terms)


def _filter(selection: FileSelection) -> _Filters | None:
    by_file = Filter.by_property("file_id")
    if selection.only is not None:
        return by_file.contains_any(sorted(selection.only - selection.without))
    return by_file.contains_none(sorted(selection.without)) if selection.without else None
