"""Searches a tenant: Weaviate ranks by meaning and by words, the two are combined here as everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from weaviate.classes.query import Filter, MetadataQuery
from weaviate.collections.classes.filters import _Filters
from weaviate.collections.collection import CollectionAsync

from services.ingestion.adapters.engines.bm25 import K1
from services.ingestion.adapters.engines.terms import Terms
from services.ingestion.adapters.engines.weaviate.objects import RETURNED, hit_of
from services.ingestion.domain.engines import FileSelection, Hit, Query, Vector
from services.ingestion.domain.search_ranking import candidates, combined


@dataclass(frozen=True, slots=True)
class _Found:
    properties: Mapping[str, Any]
    cosine: float = 0.0
    keyword: float = 0.0


class Searching:
    def __init__(self, terms: Terms) -> None:
        self._terms = terms

    async def search(self, tenant: CollectionAsync, query: Query) -> list[Hit]:
        terms = [] if query.mode == "semantic" else self._terms.of(query.text)
        files = _filter(query.files)
        if query.mode == "keyword":
            if not terms:
                return []
            found = await _by_words(tenant, terms, files, query.top_k, None)
            return [hit_of(each.properties, _share(each.keyword, len(terms))) for each in found.values()]
        assert query.vector is not None
        if not terms:
            found = await _by_meaning(tenant, query.vector, files, query.top_k)
            return [hit_of(each.properties, min(max(each.cosine, 0.0), 1.0)) for each in found.values()]
        return await _by_both(tenant, query, query.vector, terms, files)


async def _by_both(
    tenant: CollectionAsync, query: Query, vector: Vector, terms: Sequence[str], files: _Filters | None
) -> list[Hit]:
    depth = candidates(query.top_k)
    by_meaning, by_words = await asyncio.gather(
        _by_meaning(tenant, vector, files, depth), _by_words(tenant, terms, files, depth, vector)
    )
    best = max((each.keyword for each in by_words.values()), default=0.0)
    # A passage found by its words was compared with the query's vector; one found by meaning alone has hardly any.
    found = [(combined(each.cosine, each.keyword, best), each) for each in (by_meaning | by_words).values()]
    found.sort(key=lambda pair: pair[0], reverse=True)
    return [hit_of(each.properties, score) for score, each in found[: query.top_k]]


async def _by_meaning(
    tenant: CollectionAsync, vector: Vector, files: _Filters | None, limit: int
) -> dict[UUID, _Found]:
    answer = await tenant.query.near_vector(
        vector.tolist(),
        filters=files,
        limit=limit,
        return_metadata=MetadataQuery(distance=True),
        return_properties=RETURNED,
    )
    return {each.uuid: _Found(each.properties, cosine=1 - (each.metadata.distance or 0.0)) for each in answer.objects}


async def _by_words(
    tenant: CollectionAsync, terms: Sequence[str], files: _Filters | None, limit: int, vector: Vector | None
) -> dict[UUID, _Found]:
    answer = await tenant.query.bm25(
        " ".join(terms),
        query_properties=["terms"],
        filters=files,
        limit=limit,
        include_vector=vector is not None,
        return_metadata=MetadataQuery(score=True),
        return_properties=RETURNED,
    )
    return {
        each.uuid: _Found(each.properties, _cosine(vector, each.vector), each.metadata.score or 0.0)
        for each in answer.objects
    }


def _cosine(vector: Vector | None, found: Mapping[str, Any]) -> float:
    if vector is None:
        return 0.0
    other = np.asarray(found["default"], np.float32)
    length = float(np.linalg.norm(other) * np.linalg.norm(vector))
    return float(vector @ other) / length if length else 0.0


def _share(score: float, terms: int) -> float:
    """0 to 1 for a score without an upper limit; one half when every word counts as a common one at its best."""
    return score / (score + (K1 + 1) * terms)


def _filter(selection: FileSelection) -> _Filters | None:
    by_file = Filter.by_property("file_id")
    if selection.only is not None:
        return by_file.contains_any(sorted(selection.only - selection.without))
    return by_file.contains_none(sorted(selection.without)) if selection.without else None
