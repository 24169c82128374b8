"""Weaviate is killed in the middle of an ingestion: written chunks are kept, and missing ones are written again.

Then the knowledge base moves to the other engine. And Weaviate that comes back without its data.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from libs.contracts.resources.knowledge_bases import UpdateKnowledgeBase
from services.ingestion.adapters.engines.weaviate.connection import Address
from services.ingestion.adapters.engines.weaviate.engine import WeaviateEngine
from services.ingestion.adapters.postgres.indexes import PostgresIndexCatalog, PostgresIndexDeletion
from services.ingestion.domain.engines import IndexMissing
from services.ingestion.use_cases.index_care import DropIndexes, InspectIndexes, LostIndexes
from tests.integration.ingestion.chunks import chunk_ids
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.knowledge.killable import Killable, weaviate_of
from tests.integration.ingestion.workers import KnowledgeBases, WorkerProcesses, documents, open_gate, shut_gate
from tests.servers.go import WEAVIATE, cached
from tests.servers.weaviate import WeaviateServer
from tests.support.waiting import until

FILES = documents(30)


@pytest.fixture(autouse=True)
async def weaviate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[WeaviateServer, Killable]]:
    """Starts Weaviate before the service and its workers, which get its address by their environment."""
    cached(WEAVIATE)
    server, killable = weaviate_of(tmp_path)
    await killable.start()
    monkeypatch.setenv("AES_INGESTION_WEAVIATE_URL", server.url)
    monkeypatch.setenv("AES_INGESTION_WEAVIATE_GRPC_PORT", str(server.grpc_port))
    yield server, killable
    await killable.stop()


@pytest.mark.crash("Weaviate")
@pytest.mark.outage("the search engine")
@pytest.mark.slow
async def test_weaviate_killed_in_the_middle(
    weaviate: tuple[WeaviateServer, Killable], ingestion: Ingestion, bases: KnowledgeBases, workers: WorkerProcesses
) -> None:
    server, killable = weaviate
    files = await bases.upload(FILES)
    shut_gate(ingestion.database_url, most=4)
    workers.start(AES_INGESTION_STREAMS_BATCH="1", AES_INGESTION_STREAMS_BATCHES="1")
    knowledge_base_id = await bases.create(files, processing_engine="weaviate")

    async def done() -> int:
        return int((await bases.get(knowledge_base_id))["datasource_count"])

    async def some_are_done() -> bool:
        return await done() >= 3

    await until(some_are_done, "some files are ingested", pause=0.1)
    await killable.kill()
    left = len(files) - await done()
    open_gate(ingestion.database_url)
    await killable.start()

    assert (await bases.ended(knowledge_base_id))["status"] == "completed"
    assert left > 0
    undisturbed = await bases.create(files, processing_engine="weaviate")
    assert (await bases.ended(undisturbed))["status"] == "completed"
    engine = WeaviateEngine(Address(server.url, server.grpc_port))
    killed, whole = await bases.index_id(knowledge_base_id), await bases.index_id(undisturbed)
    assert killed is not None
    assert whole is not None
    chunks = [[await chunk_ids(engine, index, file_id) for file_id in files] for index in (killed, whole)]
    counts = [await engine.count(killed), await engine.count(whole)]
    assert chunks[0] == chunks[1]
    assert counts == [sum(map(len, chunks[1]))] * 2
    assert all(chunks[1])

    moved = UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes={"processing_engine": "pgvector"})
    await ingestion.run_command(moved)
    await bases.ingest(knowledge_base_id)
    assert (await bases.ended(knowledge_base_id))["status"] == "completed"
    assert await bases.chunk_ids(knowledge_base_id) == sorted(chunk for of_file in chunks[1] for chunk in of_file)
    engines = {"pgvector": bases.engine, "weaviate": engine}

    async def is_gone() -> bool:
        await DropIndexes(PostgresIndexDeletion(ingestion.service.database, ingestion.service.outbox), engines)()
        try:
            await engine.count(killed)
        except IndexMissing:
            return True
        return False

    await until(is_gone, "the index in the other engine is dropped")
    await engine.close()


@pytest.mark.crash("Weaviate")
@pytest.mark.outage("the search engine")
@pytest.mark.slow
async def test_weaviate_that_comes_back_empty_is_filled_anew(
    weaviate: tuple[WeaviateServer, Killable], ingestion: Ingestion, bases: KnowledgeBases, workers: WorkerProcesses
) -> None:
    server, killable = weaviate
    for _ in range(2):
        workers.start()
    files = await bases.upload(documents(5))
    knowledge_base_id = await bases.create(files, processing_engine="weaviate")
    assert (await bases.ended(knowledge_base_id))["status"] == "completed"
    engine = WeaviateEngine(Address(server.url, server.grpc_port))

    async def chunks() -> list[list[str]]:
        index_id = await bases.index_id(knowledge_base_id)
        assert index_id is not None
        return [await chunk_ids(engine, index_id, file_id) for file_id in files]

    async def search() -> httpx.Response:
        body = {"query": "word0x1 word1x1"}
        return await ingestion.post(f"/internal/knowledge-bases/{knowledge_base_id}/search", body)

    async def passages() -> set[str]:
        """Weaviate that has just been written to may be too busy for a search on a slow machine."""

        async def answer() -> httpx.Response | None:
            found = await search()
            return None if found.status_code == 503 else found

        answered = await until(answer, "the search is answered", pause=0.1)
        return {each["passage"] for each in answered.json()["results"]}

    before, found = await chunks(), await passages()
    assert all(before)
    assert found
    await killable.kill()
    await killable.lose()
    await killable.start()
    # It has its collection again, and this knowledge base alone is in it.
    another = await bases.create(files[:1], processing_engine="weaviate")
    assert (await bases.ended(another))["status"] == "completed"
    answer = await search()
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "30"), answer.text

    service, engines = ingestion.service, {"pgvector": bases.engine, "weaviate": engine}
    # As two processes of the service do it.
    lost_indexes = LostIndexes(PostgresIndexCatalog(service.database), engines, service.outbox)
    inspections = [InspectIndexes(lost_indexes, time.monotonic) for _ in range(2)]
    for _ in range(2):
        await asyncio.gather(*(each() for each in inspections))

    assert (await bases.ended(knowledge_base_id))["status"] == "completed"
    assert await chunks() == before
    assert await passages() == found
    assert len(await ingestion.rows("SELECT id FROM ingestion_runs")) == 3
    await engine.close()
