"""Searches a tenant with Weaviate's vector and keyword searches."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from weaviate.classes.query import Filter, MetadataQuery
from weaviate.collections.collection import CollectionAsync

from services.ingestion.adapters.engines.analysis import Analysis
from services.ingestion.adapters.engines.bm25 import relative
from services.ingestion.adapters.engines.weaviate.schema import KEY, RETURNED, hit_of, identity
from services.ingestion.domain.engines import Candidate, ChunkKey, FileSelection, Hit, Query

Found = Mapping[UUID, tuple[Mapping[str, Any], float]]


@dataclass(frozen=True, slots=True)
class WeaviateSearching:
    tenant: CollectionAsync
    analysis: Analysis

    async def candidates(self, query: Query) -> list[Candidate]:
        """Returns the candidates of both searches. Each candidate only has the scores of the searches that found it."""
        by_meaning, by_words = await asyncio.gather(self._by_meaning(query), self._by_words(query))
        properties = {uuid: found for uuid, (found, _) in [*by_meaning.items(), *by_words.items()]}
        return [
            Candidate(
                (found["file_id"], found["chunk_id"]),
                int(found["position"]),
                by_meaning[uuid][1] if uuid in by_meaning else None,
                by_words[uuid][1] if uuid in by_words else None,
            )
            for uuid, found in properties.items()
        ]

    async def hits(self, scores: Mapping[ChunkKey, float]) -> list[Hit]:
        if not scores:
            return []
        wanted = {identity(*key): score for key, score in scores.items()}
        answer = await self.tenant.query.fetch_objects_by_ids(wanted, limit=len(wanted), return_properties=RETURNED)
        found = {each.uuid: each.properties for each in answer.objects}
        return [hit_of(found[uuid], score) for uuid, score in wanted.items() if uuid in found]

    async def _by_meaning(self, query: Query) -> Found:
        if query.mode == "keyword":
            return {}
        assert query.vector is not None
        answer = await self.tenant.query.near_vector(
            query.vector.tolist(),
            filters=_filter(query.files),
            limit=query.depth,
            return_metadata=MetadataQuery(distance=True),
            return_properties=KEY,
        )
        return {each.uuid: (each.properties, 1 - (each.metadata.distance or 0.0)) for each in answer.objects}

    async def _by_words(self, query: Query) -> Found:
        terms = self.analysis.terms(query.text) if query.mode != "semantic" else []
        if not terms:
            return {}
        answer = await self.tenant.query.bm25(
            " ".join(terms),
            query_properties=["terms"],
            filters=_filter(query.files),
            limit=query.depth,
            return_metadata=MetadataQuery(score=True),
            return_properties=KEY,
        )
        return {
            each.uuid: (each.properties, relative(each.metadata.score or 0.0, len(terms))) for each in answer.objects
        }


def _filter(selection: FileSelection) -> Any:
    """Returns Weaviate's filter for the files, or None if every file is selected."""
    by_file = Filter.by_property("file_id")
    if selection.only is not None:
        return by_file.contains_any(sorted(selection.only - selection.without))
    return by_file.contains_none(sorted(selection.without)) if selection.without else None
