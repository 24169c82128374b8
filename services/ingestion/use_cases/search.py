"""Searches knowledge bases and session documents for the passages that best match a query."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Protocol

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorDetail, ServiceUnavailable, ValidationFailed
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import ArtifactPassage, ArtifactPassages, ArtifactSearchBody
from libs.contracts.resources.knowledge_bases import (
    ChunkingStrategy,
    EmbeddingConfig,
    SearchBody,
    SearchFilters,
    SearchReply,
)
from libs.retry import RetryPolicy
from services.ingestion.adapters.postgres.artifact_documents import PostgresArtifactLocator
from services.ingestion.domain.artifacts import IndexRef
from services.ingestion.domain.embedding import Embedders, EmbeddingRefused, EmbeddingUnavailable
from services.ingestion.domain.engines import (
    Engines,
    EngineUnavailable,
    FileSelection,
    Hit,
    IndexMissing,
    Query,
    Vector,
)
from services.ingestion.domain.knowledge_bases import IndexSettings, LiveIndex
from services.ingestion.domain.ranking import search
from services.ingestion.use_cases.settings_resolver import SettingsResolver

# Callers of the internal API wait for 5 s. After that, they could only report that ingestion didn't respond.
_SECONDS: Final = 4.0
_RETRY_AFTER: Final = 5
_RECREATED_AFTER: Final = 30
# A run may switch the index between the lookup and the search. This hardly ever happens twice in one request.
_RETRY: Final = RetryPolicy(first=0.0, attempts=2)


class LiveIndexes(Protocol):
    async def live_index(self, company_id: str, knowledge_base_id: str) -> LiveIndex:
        """Returns the index to search and its settings. Raises ``KnowledgeBaseNotFound``."""


class SearchableFiles(Protocol):
    """Looks up the current properties of files."""

    async def select(self, company_id: str, index_id: str, filters: SearchFilters) -> FileSelection:
        """Returns the active files that match all of the filters.

        A file matches if it's in any of the collections, is one of the files, and has any of the tags.
        """

    async def names(self, company_id: str, file_ids: Collection[str]) -> Mapping[str, str]:
        """Returns file names by ID, excluding inactive and deleted files."""


class SearchDeadline:
    """Ends a search before its caller times out, and reports which part didn't respond."""

    def __init__(self) -> None:
        self._ends = asyncio.get_running_loop().time() + _SECONDS

    @asynccontextmanager
    async def waiting_for(self, part: str) -> AsyncIterator[None]:
        """Raises ``ServiceUnavailable`` if ``part`` fails or doesn't respond before the deadline.

        Raises ``ValidationFailed`` if the query can't be embedded.
        """
        try:
            async with asyncio.timeout_at(self._ends):
                yield
        except TimeoutError as problem:
            message = f"The search failed: {part} didn't respond in time. Try again later."
            raise ServiceUnavailable(message, retry_after=_RETRY_AFTER) from problem
        except (EngineUnavailable, EmbeddingUnavailable) as problem:
            raise ServiceUnavailable(f"The search failed. {problem}", retry_after=_RETRY_AFTER) from problem
        except EmbeddingRefused as problem:
            detail = ErrorDetail(loc=["query"], type="not_embedded", message=str(problem))
            raise ValidationFailed("The query can't be embedded.", details=[detail]) from problem


async def _vector(deadline: SearchDeadline, embedders: Embedders, settings: IndexSettings, query: str) -> Vector:
    async with deadline.waiting_for(f"the embedding provider {settings.provider}"):
        embedder = await embedders.embedder(settings.provider, settings.model, settings.dimensions)
        vector: Vector = (await embedder.embed([query]))[0]
        return vector


@dataclass(frozen=True, slots=True)
class SearchKnowledgeBase:
    """Searches a knowledge base. Before its first ingestion, there are no results."""

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
                "The knowledge base's index is missing and will be rebuilt. Try again later.",
                retry_after=_RECREATED_AFTER,
            ) from None
        return SearchReply(query=body.query, mode=body.mode, results=results)

    async def _search(
        self, company_id: str, knowledge_base_id: str, body: SearchBody, deadline: SearchDeadline
    ) -> list[Citation]:
        index = await self.indexes.live_index(company_id, knowledge_base_id)
        if index.given_up:
            raise ServiceUnavailable(
                "The search engine has lost this knowledge base's index, which is being rebuilt. Try again later.",
                retry_after=_RECREATED_AFTER,
            )
        if index.index_id is None:
            return []
        engine = self.engines.get(index.settings.engine)
        if engine is None:
            raise ServiceUnavailable(
                f"The search engine {index.settings.engine} isn't configured. Ask the operator to configure it."
            )
        files = await self.files.select(company_id, index.index_id, body.filters)
        if files.is_empty:
            return []
        vector = None
        if body.mode != "keyword":
            vector = await _vector(deadline, self.embedders, index.settings, body.query)
        async with deadline.waiting_for(f"the search engine {index.settings.engine}"):
            hits = await search(engine, index.index_id, Query(body.query, vector, body.mode, body.top_k, files))
        least = body.min_score or 0.0
        return await self._citations(company_id, index, [hit for hit in hits if hit.score >= least])

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
            # The other files were deleted during the search.
            if hit.file_id in names
        ]


@dataclass(frozen=True, slots=True)
class SearchArtifacts:
    """Searches a company's session documents. Documents that aren't indexed yet are skipped."""

    locator: PostgresArtifactLocator
    embedders: Embedders
    engines: Engines
    resolver: SettingsResolver

    async def __call__(self, caller: Identity, body: ArtifactSearchBody) -> ArtifactPassages:
        """Returns the best-matching passages, best first. Raises ``ServiceUnavailable`` and ``ValidationFailed``."""
        documents, some_lost = await self.locator.locate(caller.company_id, body.artifact_ids or [])
        if some_lost:
            raise _documents_lost()
        by_index: dict[IndexRef, set[str]] = {}
        for artifact_id, index in documents.items():
            by_index.setdefault(index, set()).add(artifact_id)
        found = await self._search(by_index, body) if by_index else []
        found.sort(key=lambda each: each.score, reverse=True)
        return ArtifactPassages(results=found[: body.top_k])

    async def _search(self, by_index: Mapping[IndexRef, set[str]], body: ArtifactSearchBody) -> list[ArtifactPassage]:
        deadline, vector = SearchDeadline(), None
        if body.mode != "keyword":
            async with deadline.waiting_for("the embedding provider"):
                settings = await self.resolver.resolve(None, ChunkingStrategy(), EmbeddingConfig())
            vector = await _vector(deadline, self.embedders, settings, body.query)
        found: list[ArtifactPassage] = []
        for index, artifact_ids in by_index.items():
            query = Query(body.query, vector, body.mode, body.top_k, FileSelection(only=frozenset(artifact_ids)))
            try:
                async with deadline.waiting_for(f"the search engine {index.engine}"):
                    hits = await search(self.engines[index.engine], index.index_id, query)
            except IndexMissing:
                raise _documents_lost() from None
            found += [
                ArtifactPassage(
                    artifact_id=hit.file_id, passage=hit.text, score=round(hit.score, 6), page=hit.page, row=hit.row
                )
                for hit in hits
            ]
        return found


def _documents_lost() -> ServiceUnavailable:
    return ServiceUnavailable(
        "The search engine has lost these documents, which are being indexed again. Try again later.",
        retry_after=_RECREATED_AFTER,
    )
