"""Knowledge bases with workers as processes of their own, over a real broker."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.contracts.topics import INGESTION_EVENTS, INGESTION_WORK
from libs.eventing.administration import create_topics
from libs.service_defaults.repeating import repeat
from services.ingestion.adapters.postgres.indexes import PostgresIndexDeletion
from services.ingestion.use_cases.index_care import DropIndexes
from tests.integration.ingestion.conftest import SIGNING_KEY, Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, WorkerProcesses


@pytest.fixture
async def bases(ingestion: Ingestion) -> AsyncIterator[KnowledgeBases]:
    knowledge = KnowledgeBases(ingestion)
    service = ingestion.service
    engines = {"pgvector": knowledge.engine}
    drop = DropIndexes(PostgresIndexDeletion(service.database, service.outbox), engines)
    dropping = asyncio.create_task(repeat(drop, 0.5))
    yield knowledge
    dropping.cancel()
    await asyncio.gather(dropping, return_exceptions=True)


@pytest.fixture
async def workers(
    ingestion: Ingestion, kafka: str, topic_prefix: str, tmp_path: Path
) -> AsyncIterator[WorkerProcesses]:
    await create_topics(kafka, topic_prefix, topics=(INGESTION_WORK, INGESTION_EVENTS))
    environment = {
        "AES_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "AES_TOPIC_PREFIX": topic_prefix,
        "AES_SIGNING_KEY": SIGNING_KEY,
        "AES_INGESTION_DATABASE_URL": ingestion.database_url,
        "AES_INGESTION_OBJECTS_URL": f"file:{tmp_path}/objects",
        "AES_INGESTION_PARSING_PROCESSES": "1",
        "AES_INGESTION_LEASE_SECONDS": "3",
        "AES_INGESTION_RECONCILE_SECONDS": "2",
        "AES_INGESTION_INDEX_GRACE_SECONDS": "0",
    }
    processes = WorkerProcesses(environment, tmp_path)
    yield processes
    await asyncio.to_thread(processes.stop)


@pytest.fixture
def worker(ingestion: Ingestion, bases: KnowledgeBases) -> InlineWorker:
    return InlineWorker(ingestion.service, ingestion.objects, bases.engine)
