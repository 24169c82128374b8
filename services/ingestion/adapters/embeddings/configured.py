"""Selects the embedder for a provider and model."""

import asyncio
from collections.abc import Mapping

import aiohttp

from services.ingestion.adapters.embeddings import openai, static
from services.ingestion.domain.embedding import Embedder, EmbeddingRefused

_ADDRESS = "https://api.openai.com/v1"
_MODEL = "text-embedding-3-small"


class ConfiguredEmbedders:
    """Creates each embedder on first use, and then reuses it.

    OPENAI_BASE_URL and OPENAI_API_KEY in `environ` configure the server. `most_texts` limits the texts per request.
    """

    def __init__(self, environ: Mapping[str, str], *, most_texts: int = openai.MOST_TEXTS) -> None:
        address, key = environ.get("OPENAI_BASE_URL"), environ.get("OPENAI_API_KEY") or None
        self._endpoint = openai.Endpoint(address or _ADDRESS, key, most_texts=most_texts) if address or key else None
        self._server: openai.EmbeddingServer | None = None
        self._session: aiohttp.ClientSession | None = None
        self._known: dict[tuple[str, str, int | None], Embedder] = {}
        self._lock = asyncio.Lock()

    async def embedder(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        key = (provider, model, dimensions)
        if found := self._known.get(key):
            return found
        async with self._lock:
            if key not in self._known:
                self._known[key] = await self._make(provider, model, dimensions)
            return self._known[key]

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _make(self, provider: str, model: str, dimensions: int | None) -> Embedder:
        if provider == static.PROVIDER:
            if model not in ("", static.MODEL):
                raise EmbeddingRefused(
                    f"Unknown model {model}. Use {static.MODEL} with the embedding provider {static.PROVIDER}."
                )
            return static.StaticEmbedder(dimensions or static.DIMENSIONS[-1])
        if provider != openai.PROVIDER:
            raise EmbeddingRefused(f"Unknown embedding provider {provider}. Use wordllama or openai.")
        if self._endpoint is None:
            raise EmbeddingRefused(
                "The embedding provider openai isn't configured. Set OPENAI_API_KEY or OPENAI_BASE_URL."
            )
        if self._server is None:
            self._session = aiohttp.ClientSession()
            self._server = openai.EmbeddingServer(self._endpoint, self._session)
        return await openai.server_embedder(self._server, model or _MODEL, dimensions)
