"""Reads texts of sessions' documents and searches them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from libs.contracts.api.artifacts import ArtifactPassage, ArtifactPassages, ArtifactSearchBody, ArtifactText
from libs.contracts.api.knowledge import ChunkingStrategy, EmbeddingConfig
from libs.contracts.errors import ErrorDetail, ServiceUnavailable, ValidationFailed
from libs.contracts.identity import Identity
from libs.objects import ObjectMissing, ObjectStore, read_all
from services.ingestion.domain.artifacts import ArtifactLocator, ArtifactNotFound, IndexPlace, artifact_text_key
from services.ingestion.domain.documents import ParsedDocument
from services.ingestion.domain.embedding import Embedders, EmbeddingRefused, EmbeddingUnavailable
from services.ingestion.domain.engines import EngineUnavailable, FileSelection, IndexMissing, Query
from services.ingestion.domain.ports.knowledge_bases import Engines
from services.ingestion.use_cases.search_deadline import RETRY_AFTER, SearchDeadline
from services.ingestion.use_cases.settings_resolver import SettingsResolver

_INDEXED_AGAIN_AFTER: Final = 30


@dataclass(frozen=True, slots=True)
class ReadArtifactText:
    """The artifacts service decides who may see an artifact; here only companies are kept apart."""

    places: ArtifactLocator
    store: ObjectStore

    async def __call__(self, caller: Identity, artifact_id: str, *, offset: int, limit: int) -> ArtifactText:
        """A part of the text. Raises ``ArtifactNotFound``."""
        if artifact_id not in await self.places.places(caller.company_id, [artifact_id]):
            raise ArtifactNotFound
        try:
            document = ParsedDocument.from_bytes(await read_all(self.store, artifact_text_key(artifact_id)))
        except ObjectMissing:
            raise ArtifactNotFound from None
        part = document.text[offset : offset + limit]
        return ArtifactText(artifact_id=artifact_id, text=part, offset=offset, characters=len(document.text))


@dataclass(frozen=True, slots=True)
class SearchArtifacts:
    """Searches the named documents of a company, as far as they are indexed."""

    places: ArtifactLocator
    embedders: Embedders
    engines: Engines
    resolver: SettingsResolver

    async def __call__(self, caller: Identity, body: ArtifactSearchBody) -> ArtifactPassages:
        """Best passages first. Raises ``ServiceUnavailable`` and ``ValidationFailed``."""
        places = await self.places.places(caller.company_id, body.artifact_ids or [])
        by_index: dict[IndexPlace, set[str]] = {}
        for artifact_id, placed in places.items():
            if placed.lost:
                raise ServiceUnavailable(
                    "The search engine has lost these documents; they are being indexed again.",
                    retry_after=_INDEXED_AGAIN_AFTER,
                )
            by_index.setdefault(placed.place, set()).add(artifact_id)
        try:
            found = await self._search(by_index, body)
        except (EngineUnavailable, EmbeddingUnavailable, IndexMissing) as problem:
            raise ServiceUnavailable(f"The search failed: {problem}.", retry_after=RETRY_AFTER) from problem
        except EmbeddingRefused as problem:
            detail = ErrorDetail(loc=["query"], type="not_embedded", message=str(problem))
            raise ValidationFailed("The query cannot be searched by meaning.", details=[detail]) from problem
        found.sort(key=lambda each: each.score, reverse=True)
        return ArtifactPassages(results=found[: body.top_k])

    async def _search(self, by_index: Mapping[IndexPlace, set[str]], body: ArtifactSearchBody) -> list[ArtifactPassage]:
        if not by_index:
            return []
        deadline, vector = SearchDeadline(), None
        if body.mode != "keyword":
            async with deadline.waiting_for("the embedding provider"):
                settings = await self.resolver.resolve(None, ChunkingStrategy(), EmbeddingConfig())
                embedder = await self.embedders.embedder(settings.provider, settings.model, settings.dimensions)
                vector = (await embedder.embed([body.query]))[0]
        found: list[ArtifactPassage] = []
        for place, artifact_ids in by_index.items():
            query = Query(body.query, vector, body.mode, body.top_k, FileSelection(only=frozenset(artifact_ids)))
            async with deadline.waiting_for(f"the engine {place.engine}"):
                hits = await self.engines[place.engine].search(place.index_id, query)
            found += [
                ArtifactPassage(
                    artifact_id=hit.file_id, passage=hit.text, score=round(hit.score, 6), page=hit.page, row=hit.row
                )
                for hit in hits
            ]
        return found
