"""Searches a knowledge base for the passages that fit a query best."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.api.knowledge import SearchBody, SearchReply
from libs.contracts.api.sessions import Citation
from libs.contracts.errors import ErrorDetail, ServiceUnavailable, ValidationFailed
from libs.contracts.identity import Identity
from libs.retry import RetryPolicy
from services.ingestion.domain.embedding import Embedders, EmbeddingRefused, EmbeddingUnavailable
from services.ingestion.domain.engines import EngineUnavailable, Hit, IndexMissing, Query, Vector
from services.ingestion.domain.knowledge_bases import IndexSettings, KnowledgeBaseNotFound, LiveIndex
from services.ingestion.domain.ports.knowledge_bases import Engines
from services.ingestion.domain.search import LiveIndexes, SearchableFiles
from services.ingestion.use_cases.search_deadline import RETRY_AFTER, SearchDeadline

_RECREATED_AFTER = 30
# A run may switch the index between the lookup and the search; once per request is rare enough.
_RETRY: Final = RetryPolicy(first=0.0, attempts=2)


@dataclass(frozen=True, slots=True)
class SearchKnowledgeBase:
    """Finds nothing in a knowledge base before its first ingestion."""

    indexes: LiveIndexes
    files: SearchableFiles
    engines: Engines
    embedders: Embedders

    async def __call__(self, caller: Identity, knowledge_base_id: str, body: SearchBody) -> SearchReply:
        deadline = SearchDeadline()
        try:
            results = await _RETRY.run(
                lambda: self._search(caller.company_id, knowledge_base_id, body, deadline), on=IndexMissing
            )
        except IndexMissing:
            raise ServiceUnavailable(
                "The search engine does not have this knowledge base's index, which will be made anew.",
                retry_after=_RECREATED_AFTER,
            ) from None
        except (EngineUnavailable, EmbeddingUnavailable) as problem:
            raise ServiceUnavailable(f"The search failed: {problem}.", retry_after=RETRY_AFTER) from problem
        return SearchReply(query=body.query, mode=body.mode, results=results)

    async def _search(
        self, company_id: str, knowledge_base_id: str, body: SearchBody, deadline: SearchDeadline
    ) -> list[Citation]:
        index = await self.indexes.live_index(company_id, knowledge_base_id)
        if index is None:
            raise KnowledgeBaseNotFound
        return await self._results(company_id, index, body, deadline)

    async def _results(
        self, company_id: str, index: LiveIndex, body: SearchBody, deadline: SearchDeadline
    ) -> list[Citation]:
        if index.given_up:
            raise ServiceUnavailable(
                "The search engine has lost this knowledge base's index; it is being made anew.",
                retry_after=_RECREATED_AFTER,
            )
        if index.index_id is None:
            return []
        engine = self.engines.get(index.settings.engine)
        if engine is None:
            raise ServiceUnavailable(f"The engine {index.settings.engine} is not configured here.")
        files = await self.files.select(company_id, index.index_id, body.filters)
        if files.is_empty:
            return []
        async with deadline.waiting_for(f"the embedding provider {index.settings.provider}"):
            vector = None if body.mode == "keyword" else await self._vector(index.settings, body.query)
        async with deadline.waiting_for(f"the engine {index.settings.engine}"):
            hits = await engine.search(index.index_id, Query(body.query, vector, body.mode, body.top_k, files))
        least = body.min_score or 0.0
        return await self._citations(company_id, index, [hit for hit in hits if hit.score >= least])

    async def _vector(self, settings: IndexSettings, query: str) -> Vector:
        try:
            embedder = await self.embedders.embedder(settings.provider, settings.model, settings.dimensions)
            vector: Vector = (await embedder.embed([query]))[0]
        except EmbeddingRefused as problem:
            detail = ErrorDetail(loc=["query"], type="not_embedded", message=str(problem))
            raise ValidationFailed("The query cannot be searched by meaning.", details=[detail]) from problem
        return vector

    async def _citations(self, company_id: str, index: LiveIndex, hits: Sequence[Hit]) -> list[Citation]:
        names = await self.files.names(company_id, {hit.file_id for hit in hits})
        return [
            Citation(
                knowledge_base_id=index.knowledge_base_id,
                knowledge_base_name=index.name,
                file_id=hit.file_id,
                file_name=names[hit.file_id],
                page=hit.page,
                row=hit.row,
                passage=hit.text,
                score=round(hit.score, 6),
            )
            for hit in hits
            # Others were deleted during the search.
            if hit.file_id in names
        ]
