"""Real PostgreSQL and Kafka for integration tests; nothing starts until a test asks for it."""

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deploy.local.foreground import start
from libs.persistence import Database
from tests.servers.go import VERSITYGW, cached
from tests.support import containers
from tests.support.infrastructure import Infrastructure, shared
from tests.support.s3_server import S3Server


@pytest.fixture(scope="session")
def infrastructure() -> Infrastructure:
    return shared


@pytest.fixture(scope="session")
def postgres(infrastructure: Infrastructure) -> str:
    """The administrator's URL of the test run's PostgreSQL."""
    return infrastructure.postgres_url()


@pytest.fixture(scope="session")
def kafka(infrastructure: Infrastructure) -> str:
    """Bootstrap servers of the test run's Kafka."""
    return infrastructure.kafka()


@pytest.fixture
def migrations() -> Path | None:
    """URL of the test's database. Each service's tests have theirs."""
    return None


@pytest.fixture
async def database_url(infrastructure: Infrastructure, migrations: Path | None) -> AsyncIterator[str]:
    """A database of the test's own: empty, or with the newest schema of the migrations."""
    async with own_database(infrastructure, migrations) as url:
        yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    yield database
    await database.close()


@asynccontextmanager
async def own_database(infrastructure: Infrastructure, migrations: Path | None) -> AsyncIterator[str]:
    name = f"test_{secrets.token_hex(6)}"
    if migrations is None:
        yield await infrastructure.create_database(name)
    else:
        yield await infrastructure.create_migrated(name, migrations)
    await infrastructure.drop_database(name)


@pytest.fixture
def topic_prefix() -> str:
    """A prefix that keeps the test's topics and groups apart from every other test's."""
    return new_topic_prefix()


def new_topic_prefix() -> str:
    return f"t{secrets.token_hex(4)}-"


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    if containers.wanted():
        server = S3Server(tmp_path_factory.mktemp("s3"), {})
        container = containers.objects("tests", server.secret)
        server.port = container.ports[9000]
        yield server
        container.stop()
        return
    cached(VERSITYGW)
    server = S3Server(tmp_path_factory.mktemp("s3"), dict(os.environ))
    # In a thread: the loop of the test that asks for it is running here.
    with ThreadPoolExecutor(1) as executor:
        running = executor.submit(asyncio.run, start(server, lambda _: None)).result()
    yield server
    running.stop()
