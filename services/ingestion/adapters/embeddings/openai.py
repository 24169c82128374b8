"""Embeds texts with any OpenAI-compatible server."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import numpy as np
import orjson
import structlog
from yarl import URL

from libs.retry import RetryPolicy, Transient
from services.ingestion.domain.embedding import (
    DimensionsMismatch,
    EmbeddingRefused,
    EmbeddingUnavailable,
    Vectors,
)

_log = structlog.get_logger("embedding")
PROVIDER: Final = "openai"
_RETRIED: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 524, 529})
MOST_TEXTS: Final = 128
_TOO_LARGE: Final = frozenset({400, 413, 422})
_MOST_CHARACTERS = 200_000
_AT_ONCE = 4
_LARGEST_ERROR = 300
_LONGEST_WAIT = 20.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An embedding server. `base_url` excludes `/embeddings`. `timeout` is the limit for each request, in seconds."""

    base_url: str
    api_key: str | None = None
    timeout: float = 60.0
    attempts: int = 4
    first_wait: float = 0.5
    most_texts: int = MOST_TEXTS


class BatchRefused(EmbeddingRefused):
    """The server rejected this request but may accept a smaller one."""


class EmbeddingServer:
    """A client for an embedding server."""

    def __init__(self, endpoint: Endpoint, session: aiohttp.ClientSession) -> None:
        self.most_texts = endpoint.most_texts
        self._endpoint = endpoint
        self._session = session
        self._url = URL(endpoint.base_url.rstrip("/") + "/embeddings")
        self._headers = {"Content-Type": "application/json"}
        if endpoint.api_key:
            self._headers["Authorization"] = f"Bearer {endpoint.api_key}"
        self._retries = RetryPolicy(endpoint.first_wait, longest=_LONGEST_WAIT, attempts=endpoint.attempts)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    async def embed(self, model: str, texts: Sequence[str], dimensions: int | None = None) -> Vectors:
        """Embeds texts. `dimensions` is only sent if it's set, since some models and servers don't support it."""
        body: dict[str, Any] = {"model": model, "input": list(texts), "encoding_format": "float"}
        if dimensions is not None:
            body["dimensions"] = dimensions
        encoded = orjson.dumps(body)
        async with self._slots:
            try:
                content = await self._retries.run(lambda: self._post(encoded), on=Transient)
            except Transient as problem:
                raise EmbeddingUnavailable(str(problem)) from problem
        return _vectors(content, len(texts))

    async def _post(self, body: bytes) -> bytes:
        # Following a redirect would send documents to a host that isn't configured.
        request = self._session.post(
            self._url,
            data=body,
            headers=self._headers,
            timeout=aiohttp.ClientTimeout(total=self._endpoint.timeout, sock_connect=10.0),
            allow_redirects=False,
        )
        try:
            async with request as response:
                content = await response.read()
                status, after = response.status, response.headers.get("Retry-After", "")
        except (aiohttp.ClientError, TimeoutError) as problem:
            address = str(self._url.with_user(None))
            _log.warning("embedding.connection_failed", address=address, problem=repr(problem))
            raise Transient("Couldn't connect to the embedding server.") from problem
        if status == 200:
            return content
        message = f"The embedding server returned status {status}{self._reason(content)}."
        if status in _RETRIED:
            raise Transient(message, min(float(after), _LONGEST_WAIT) if after.isdigit() else None)
        # Servers report oversized batches in many different ways.
        raise BatchRefused(message) if status in _TOO_LARGE else EmbeddingRefused(message)

    def _reason(self, content: bytes) -> str:
        """Returns the server's error message. Ignores other content, since it may reveal internals."""
        try:
            message = str(orjson.loads(content)["error"]["message"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return ""
        # Some servers repeat the rejected key in the message.
        return ": " + message.replace(self._endpoint.api_key or "\0", "***")[:_LARGEST_ERROR]


class ServerEmbedder:
    """Implements Embedder for a model on an embedding server."""

    def __init__(self, server: EmbeddingServer, model: str, dimensions: int, *, asked: bool) -> None:
        """Creates an embedder. If `asked` is true, each request specifies the dimensions."""
        self.model = f"{PROVIDER}:{model}"
        self.dimensions = dimensions
        self._server = server
        self._name = model
        self._asked = dimensions if asked else None
        self._most_texts = server.most_texts

    async def embed(self, texts: Sequence[str]) -> Vectors:
        if not all(text.strip() for text in texts):
            raise EmbeddingRefused("Blank text can't be embedded.")
        if not texts:
            return np.empty((0, self.dimensions), np.float32)
        vectors = await self._in_batches(texts)
        if vectors.shape[1] != self.dimensions:
            raise DimensionsMismatch(
                f"The model {self._name} returned vectors with {vectors.shape[1]} dimensions, not {self.dimensions}."
            )
        return vectors

    async def _in_batches(self, texts: Sequence[str]) -> Vectors:
        calls = [self._batch(batch) for batch in _batches(texts, self._most_texts)]
        return np.concatenate(await asyncio.gather(*calls))

    async def _batch(self, texts: Sequence[str]) -> Vectors:
        """Embeds a batch. If the server rejects the batch, halves this batch and later ones."""
        try:
            return await self._server.embed(self._name, texts, self._asked)
        except BatchRefused:
            if len(texts) == 1:
                raise
        half = (len(texts) + 1) // 2
        first = await self._in_batches(texts[:half])
        both = np.concatenate([first, await self._in_batches(texts[half:])])
        self._most_texts = min(self._most_texts, half)
        return both


async def server_embedder(server: EmbeddingServer, model: str, dimensions: int | None) -> ServerEmbedder:
    """Creates an embedder. Embeds a text to find out how many dimensions the vectors have."""
    usual = (await server.embed(model, ["dimensions"])).shape[1]
    if dimensions is None or usual == dimensions:
        return ServerEmbedder(server, model, usual, asked=False)
    try:
        found = (await server.embed(model, ["dimensions"], dimensions)).shape[1]
    except EmbeddingRefused:
        found = usual
    if found != dimensions:
        raise DimensionsMismatch(f"The model {model} has {usual} dimensions, not {dimensions}.")
    return ServerEmbedder(server, model, dimensions, asked=True)


def _batches(texts: Sequence[str], most: int) -> Iterator[list[str]]:
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == most or characters + len(text) > _MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _vectors(content: bytes, expected: int) -> Vectors:
    try:
        data = sorted(orjson.loads(content)["data"], key=lambda each: each["index"])
        vectors = np.array([each["embedding"] for each in data], np.float32)
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as problem:
        raise EmbeddingRefused("The embedding server's response doesn't contain embeddings.") from problem
    if vectors.ndim != 2 or len(vectors) != expected:
        raise EmbeddingRefused(
            f"The embedding server returned the wrong number of vectors: {len(vectors)} instead of {expected}."
        )
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not (np.isfinite(lengths).all() and lengths.all()):
        raise EmbeddingRefused(
            "The embedding server returned an invalid vector: all zeros, or with values that aren't finite."
        )
    unit: Vectors = vectors / lengths
    return unit
