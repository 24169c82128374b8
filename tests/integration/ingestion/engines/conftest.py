"""Both engines on real servers. Tests of Weaviate are skipped where it has not been built."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deploy.local.foreground import start
from deploy.local.processes import MARKER
from libs.contracts.identifiers import new_id
from libs.persistence import Database
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.domain.engines import Engine
from tests.integration.ingestion.chunks import DIMENSIONS
from tests.servers.go import WEAVIATE, cached
from tests.servers.weaviate import WeaviateServer
from tests.support import containers


@pytest.fixture(scope="session")
def weaviate_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, int]]:
    """Weaviate's address and the port of its gRPC API."""
    if containers.wanted():
        container = containers.weaviate()
        yield f"http://127.0.0.1:{container.ports[8080]}", container.ports[50051]
        container.stop()
        return
    cached(WEAVIATE)
    directory: Path = tmp_path_factory.mktemp("weaviate")
    server = WeaviateServer(directory, {**os.environ, MARKER: str(directory)})
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(asyncio.run, start(server, print)).result()
    yield server.url, server.grpc_port
    running.stop()


@pytest.fixture
async def weaviate(weaviate_server: tuple[str, int]) -> AsyncIterator[WeaviateEngine]:
    engine = WeaviateEngine(Address(*weaviate_server))
    yield engine
    await engine.close()


@pytest.fixture
def pgvector(database: Database) -> PgvectorEngine:
    return PgvectorEngine(database)


@pytest.fixture
def pgvector_indexed(database: Database) -> PgvectorEngine:
    """An engine that builds graph and inverted index from the first chunk on."""
    return PgvectorEngine(database, indexed_from=1)


_QUICK = "integration/ingestion/engines/test_pgvector.py::test_indexes_find_what_comparing_everything_finds"


@pytest.fixture(
    params=["pgvector", pytest.param("pgvector_indexed", marks=pytest.mark.slow(covered_by=_QUICK)), "weaviate"]
)
def engine(request: pytest.FixtureRequest) -> Engine:
    return request.getfixturevalue(request.param)


@pytest.fixture
async def index_id(engine: Engine) -> AsyncIterator[str]:
    index_id = new_id()
    await engine.create_index(index_id, DIMENSIONS)
    yield index_id
    await engine.drop_index(index_id)
