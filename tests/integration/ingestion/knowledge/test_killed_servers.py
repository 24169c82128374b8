"""Servers killed in the middle of an ingestion: it ends by itself, and its index is that of an undisturbed one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from deploy.local.postgres import Postgres
from libs.contracts.topics import INGESTION_EVENTS, INGESTION_WORK
from libs.eventing.administration import create_topics
from libs.persistence import migrate
from services.ingestion.bootstrap import MIGRATIONS
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.knowledge.killable import Killable, kafka_of, postgres_of
from tests.integration.ingestion.workers import KnowledgeBases, WorkerProcesses, documents, open_gate, shut_gate
from tests.support.waiting import until

FILES = documents(30)
# A batch is one message, and a worker whose broker leaves it without work for long is started anew.
SETTINGS = {
    "AES_INGESTION_STREAMS_BATCH": "1",
    "AES_INGESTION_STREAMS_BATCHES": "1",
    "AES_INGESTION_PARSING_TIMEOUT_SECONDS": "9",
    "AES_INGESTION_WATCHDOG_SECONDS": "10",
}


@pytest.fixture
async def postgres_server(tmp_path: Path) -> AsyncIterator[tuple[Postgres, Killable]]:
    postgres, server = postgres_of(tmp_path)
    await server.start()
    yield postgres, server
    await server.stop()


@pytest.fixture
async def database_url(postgres_server: tuple[Postgres, Killable]) -> str:
    """A database in a server of this test's own, which it may kill."""
    postgres, _ = postgres_server
    name = f"test_{secrets.token_hex(6)}"
    async with await psycopg.AsyncConnection.connect(postgres.administrator_url, autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
    url = postgres.url(name, "postgres", postgres.password)
    await asyncio.to_thread(migrate, url, MIGRATIONS)
    return url


@pytest.fixture
async def kafka_server(tmp_path: Path, topic_prefix: str) -> AsyncIterator[tuple[str, Killable]]:
    """A Kafka of this test's own, with topics, which it may kill."""
    kafka, server = kafka_of(tmp_path)
    await server.start()
    await create_topics(kafka.bootstrap_servers, topic_prefix, topics=(INGESTION_WORK, INGESTION_EVENTS))
    await server.stop()
    await server.keep()
    await server.start()
    yield kafka.bootstrap_servers, server
    await server.stop()


@pytest.fixture
def kafka(kafka_server: tuple[str, Killable]) -> str:
    return kafka_server[0]


@pytest.mark.crash("Kafka")
@pytest.mark.slow
async def test_postgres_and_kafka_killed_in_the_middle(
    ingestion: Ingestion,
    bases: KnowledgeBases,
    workers: WorkerProcesses,
    postgres_server: tuple[Postgres, Killable],
    kafka_server: tuple[str, Killable],
) -> None:
    postgres, broker = postgres_server[1], kafka_server[1]
    files = await bases.upload(FILES)
    shut_gate(ingestion.database_url, most=4)
    workers.start(**SETTINGS)
    await until(lambda: workers.joined(1), "the worker has joined", pause=0.1)
    first = await bases.create(files)

    async def done(knowledge_base_id: str) -> int:
        # As a supervisor does: a worker of no use any more ends itself.
        if workers.started[-1].poll() is not None:
            workers.start(**SETTINGS)
        response = await ingestion.get(f"/internal/knowledge-bases/{knowledge_base_id}")
        assert response.status_code in (200, 503), response.text
        return int(response.json()["datasource_count"]) if response.status_code == 200 else 0

    async def reaches(knowledge_base_id: str, count: int) -> int:
        async def has_reached() -> int:
            found = await done(knowledge_base_id)
            return found if found >= count else 0

        return await until(has_reached, f"{count} files are ingested", pause=0.1)

    await reaches(first, 3)
    await broker.kill()
    second = await bases.create(files)
    left = len(files) - await done(first)
    [run] = await ingestion.rows("SELECT index_id FROM ingestion_runs WHERE knowledge_base_id = %s", first)
    open_gate(ingestion.database_url, run["index_id"])
    await postgres.kill()
    await broker.take_back()
    await postgres.start()
    await broker.start()
    left_again = len(files) - await reaches(second, 3)
    await postgres.kill()
    await postgres.start()
    open_gate(ingestion.database_url)
    await reaches(first, len(files))
    await reaches(second, len(files))

    assert left > 0
    assert left_again > 0
    undisturbed = await bases.create(files)
    assert [(await bases.ended(each))["status"] for each in (first, second, undisturbed)] == ["completed"] * 3
    chunks = await bases.chunk_ids(undisturbed)
    assert len(set(chunks)) == len(chunks) > len(files)
    assert await bases.chunk_ids(first) == chunks
    assert await bases.chunk_ids(second) == chunks
