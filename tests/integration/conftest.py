"""Real PostgreSQL and Kafka for integration tests; nothing starts until a test asks for it."""

import secrets
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.infrastructure import Infrastructure, shared


@pytest.fixture(scope="session")
def infrastructure() -> Iterator[Infrastructure]:
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def postgres(infrastructure: Infrastructure) -> str:
    """The administrator's URL of the test run's PostgreSQL."""
    return infrastructure.postgres_url()


@pytest.fixture(scope="session")
def kafka(infrastructure: Infrastructure) -> str:
    """Bootstrap servers of the test run's Kafka."""
    return infrastructure.kafka()


@pytest.fixture
async def database_url(infrastructure: Infrastructure) -> AsyncIterator[str]:
    """An empty database of the test's own."""
    name = f"test_{secrets.token_hex(6)}"
    yield await infrastructure.create_database(name)
    await infrastructure.drop_database(name)


@pytest.fixture
def topic_prefix() -> str:
    """A prefix that keeps the test's topics and groups apart from every other test's."""
    return f"t{secrets.token_hex(4)}-"
