"""The test run's own PostgreSQL and Kafka do what other tests rely on."""

from pathlib import Path

import psycopg
import pytest

from deploy.local.kafka import Kafka
from tests.support import containers
from tests.support.infrastructure import Infrastructure


async def test_a_database_is_empty_and_knows_vectors(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        tables = await connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert await tables.fetchone() == (0,)
        await connection.execute("CREATE EXTENSION vector")
        distance = await connection.execute("SELECT '[1,2]'::vector <-> '[4,6]'::vector")
        assert await distance.fetchone() == (5.0,)


async def test_a_dropped_database_is_gone(infrastructure: Infrastructure) -> None:
    url = await infrastructure.create_database("test_short_lived")
    await infrastructure.drop_database("test_short_lived")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        await psycopg.AsyncConnection.connect(url)


async def test_the_broker_answers(kafka: str) -> None:
    port = int(kafka.rpartition(":")[2])
    assert await _asking(port).is_ready()


def test_the_servers_of_a_run_are_embedded_or_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, are_containers in (("containers", True), ("embedded", False)):
        monkeypatch.setenv("AES_TEST_INFRA", value)
        assert containers.wanted() is are_containers
    monkeypatch.setenv("AES_TEST_INFRA", "docker")
    with pytest.raises(ValueError, match="AES_TEST_INFRA"):
        containers.wanted()


def test_containers_have_the_images_of_the_compose_file() -> None:
    assert {"kafka", "postgres", "weaviate", "objects"} <= containers.images().keys()


async def test_nobody_listening_is_not_ready() -> None:
    assert not await _asking(1).is_ready()


def _asking(port: int) -> Kafka:
    nowhere = Path("/nonexistent")
    return Kafka(nowhere, nowhere, nowhere, port=port, controller_port=0, environment={})
