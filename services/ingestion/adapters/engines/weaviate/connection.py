"""Connects to a Weaviate server on first use."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
import weaviate
from weaviate.classes.init import AdditionalConfig, Timeout
from weaviate.collections.collection import CollectionAsync
from weaviate.exceptions import (
    InsufficientPermissionsError,
    WeaviateBaseError,
    WeaviateInvalidInputError,
)

from services.ingestion.adapters.engines.weaviate.schema import COLLECTION, create_collection
from services.ingestion.domain.engines import EngineUnavailable, IndexMissing

_log = structlog.get_logger("ingestion.weaviate")
_COLLECTION_MISSING = ("could not find class", "class not found", "collection not found", "not present in schema")
_MISSING = ("tenant not found", *_COLLECTION_MISSING)
_OUR_FAULT = (WeaviateInvalidInputError, InsufficientPermissionsError)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a Weaviate server.

    `url` is the REST API's URL, and the gRPC API is on the same host. Timeouts apply to a whole call, in seconds.
    """

    url: str
    grpc_port: int = 50051
    api_key: str | None = None
    query_timeout: float = 10.0
    write_timeout: float = 60.0


class Connection:
    def __init__(self, address: Address) -> None:
        self._address = address
        self._client: weaviate.WeaviateAsyncClient | None = None
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def collection(self, index_id: str = "", *, writes: bool = True) -> AsyncIterator[CollectionAsync]:
        """Yields the collection that contains all indexes. Raises ``EngineUnavailable`` and ``IndexMissing``."""
        try:
            # Without this limit, the client would retry for minutes.
            async with asyncio.timeout(self._address.write_timeout if writes else self._address.query_timeout):
                client = await self._connected()
                yield client.collections.get(COLLECTION)
        except TimeoutError as problem:
            raise EngineUnavailable("Weaviate didn't respond in time.") from problem
        except _OUR_FAULT:
            raise
        except WeaviateBaseError as problem:
            reason = str(problem).lower()
            if any(words in reason for words in _COLLECTION_MISSING):
                # The server has lost its data. The next connection recreates the collection.
                await self.close()
            if any(words in reason for words in _MISSING):
                raise IndexMissing(index_id) from problem
            # The client's message and the address are only logged. Callers get a general outage error.
            _log.warning("weaviate.not_answering", address=self._address.url, problem=str(problem)[:500])
            raise EngineUnavailable("Weaviate isn't responding.") from problem

    async def ping(self) -> None:
        async with self.collection(writes=False):
            client = await self._connected()
            if not await client.is_ready():
                raise EngineUnavailable("Weaviate isn't ready.")

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def _connected(self) -> weaviate.WeaviateAsyncClient:
        async with self._lock:
            if self._client is None:
                client = self._new_client()
                try:
                    await client.connect()
                    await create_collection(client)
                except BaseException:
                    await client.close()
                    raise
                self._client = client
            return self._client

    def _new_client(self) -> weaviate.WeaviateAsyncClient:
        address, parts = self._address, urlsplit(self._address.url)
        host, secure = parts.hostname or "localhost", parts.scheme == "https"
        return weaviate.use_async_with_custom(
            http_host=host,
            http_port=parts.port or (443 if secure else 80),
            http_secure=secure,
            grpc_host=host,
            grpc_port=address.grpc_port,
            grpc_secure=secure,
            auth_credentials=address.api_key,
            additional_config=AdditionalConfig(
                timeout=Timeout(init=5, query=address.query_timeout, insert=address.write_timeout)
            ),
            # In its checks, the client would look for a newer version in a package registry.
            skip_init_checks=True,
        )
