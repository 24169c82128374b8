"""Resolves a knowledge base's configuration to index settings."""

from dataclasses import dataclass

from libs.contracts.errors import ErrorDetail, ServiceUnavailable, ValidationFailed
from libs.contracts.resources.knowledge_bases import ChunkingStrategy, EmbeddingConfig
from services.ingestion.domain.embedding import Embedders, EmbeddingRefused, EmbeddingUnavailable
from services.ingestion.domain.engines import Engines
from services.ingestion.domain.knowledge_bases import IndexSettings


@dataclass(frozen=True, slots=True)
class SettingsResolver:
    embedders: Embedders
    engines: Engines
    default_engine: str

    async def resolve(
        self, engine: str | None, chunking: ChunkingStrategy, embedding: EmbeddingConfig
    ) -> IndexSettings:
        """Returns the index settings for this configuration.

        Raises ``ValidationFailed``, or ``ServiceUnavailable`` if the embedding provider doesn't respond.
        """
        engine = engine or self.default_engine
        if engine not in self.engines:
            known = ", ".join(sorted(self.engines))
            raise _refused("processing_engine", f"The search engine {engine} isn't installed. Use one of: {known}.")
        try:
            embedder = await self.embedders.embedder(embedding.provider, embedding.model, embedding.dimensions)
        except EmbeddingRefused as refusal:
            raise _refused("embedding_config", str(refusal)) from refusal
        except EmbeddingUnavailable as problem:
            raise ServiceUnavailable(
                "The embedding provider isn't responding. Try again later.", retry_after=5
            ) from problem
        model = embedder.model.removeprefix(f"{embedding.provider}:")
        return IndexSettings(engine, chunking, embedding.provider, model, embedder.dimensions)


def _refused(field: str, message: str) -> ValidationFailed:
    return ValidationFailed(message, details=[ErrorDetail(loc=[field], type="value_error", message=message)])
