"""A lost index is never searched as if it were empty, and is rebuilt with the same passages."""

import asyncio

import httpx
import pytest

from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, documents

COMPLETED = "knowledge_base.ingestion.completed"
FAILED = "knowledge_base.ingestion.failed"


async def search(ingestion: Ingestion, knowledge_base_id: str) -> httpx.Response:
    body = {"query": "word0x1 word1x1", "mode": "keyword"}
    return await ingestion.post(f"/internal/knowledge-bases/{knowledge_base_id}/search", body)


async def assert_outage(ingestion: Ingestion, knowledge_base_id: str) -> None:
    answer = await search(ingestion, knowledge_base_id)
    assert answer.status_code == 503, answer.text
    assert answer.json()["error"]["type"] == "service_unavailable"
    assert int(answer.headers["Retry-After"]) > 0


async def found(ingestion: Ingestion, knowledge_base_id: str) -> set[str]:
    answer = await search(ingestion, knowledge_base_id)
    assert answer.status_code == 200, answer.text
    return {each["file_name"] for each in answer.json()["results"]}


async def lose(ingestion: Ingestion, index_id: str | None) -> None:
    number = await ingestion.rows("SELECT number FROM search.indexes WHERE id = %s", index_id)
    await ingestion.rows(f"DROP TABLE search.passages_{number[0]['number']}")


@pytest.fixture
async def knowledge_base(bases: KnowledgeBases, worker: InlineWorker) -> str:
    """Ingests two files into a knowledge base."""
    knowledge_base_id = await bases.create(await bases.upload(documents(2)))
    await worker.drain()
    return knowledge_base_id


@pytest.mark.outage("the search engine")
async def test_a_lost_index_is_an_outage_until_it_is_made_anew(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, knowledge_base: str
) -> None:
    before, old = await bases.chunk_ids(knowledge_base), await bases.index_id(knowledge_base)
    assert await worker.inspect() == 0
    await lose(ingestion, old)
    await assert_outage(ingestion, knowledge_base)

    assert await worker.inspect() == 0, "one look may be mistaken"
    assert await worker.inspect() == 1
    await assert_outage(ingestion, knowledge_base)
    during = await bases.get(knowledge_base)
    assert (during["status"], during["processing_metadata"]["phase"]) == ("running", "queued")
    await worker.step()
    await assert_outage(ingestion, knowledge_base)

    await worker.drain()

    assert await bases.chunk_ids(knowledge_base) == before
    assert await bases.index_id(knowledge_base) != old
    assert await found(ingestion, knowledge_base) == {"doc-0000.md", "doc-0001.md"}
    assert (await bases.get(knowledge_base))["status"] == "completed"
    assert await ingestion.events(COMPLETED, FAILED) == [COMPLETED, COMPLETED]
    assert worker.reader.parsed == ["doc-0000.md", "doc-0001.md"], "texts are not parsed again"
    assert await ingestion.rows("SELECT id FROM search.indexes WHERE id = %s", old) == []
    assert [await worker.inspect() for _ in range(2)] == [0, 0]


@pytest.mark.crash("Weaviate")
async def test_an_ingestion_finds_out_by_itself_and_two_that_find_out_begin_one(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, knowledge_base: str
) -> None:
    before = await bases.chunk_ids(knowledge_base)
    await lose(ingestion, await bases.index_id(knowledge_base))
    other = InlineWorker(ingestion.service, ingestion.objects, bases.engine)
    inspections = [worker.inspect, other.inspect]
    for _ in range(2):
        await asyncio.gather(*(each() for each in inspections))
    assert len(await ingestion.rows("SELECT id FROM ingestion_runs")) == 2
    await worker.drain()
    assert await bases.chunk_ids(knowledge_base) == before

    await lose(ingestion, await bases.index_id(knowledge_base))
    await bases.ingest(knowledge_base)
    await asyncio.gather(worker.drain(), other.drain())
    await worker.drain()

    assert await bases.chunk_ids(knowledge_base) == before
    assert (await bases.get(knowledge_base))["status"] == "completed"
    assert len(await ingestion.rows("SELECT id FROM ingestion_runs WHERE state = 'completed'")) == 3


async def test_an_index_lost_while_it_is_written_is_written_anew_by_the_same_run(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(3)))
    await worker.step()
    await worker.step(1)
    [index] = await ingestion.rows("SELECT id FROM knowledge_base_indexes")
    await lose(ingestion, index["id"])
    await worker.step()
    items = await ingestion.rows("SELECT state, attempts FROM ingestion_items ORDER BY state")
    assert [(each["state"], each["attempts"]) for each in items] == [("ingested", 1), *[("pending", 0)] * 2]

    assert [await worker.inspect() for _ in range(2)] == [0, 1]
    await worker.drain()

    assert await found(ingestion, knowledge_base_id) >= {"doc-0000.md", "doc-0001.md"}
    assert (await bases.get(knowledge_base_id))["datasource_count"] == 3
    assert await ingestion.events(COMPLETED, FAILED) == [COMPLETED]
    assert len(await ingestion.rows("SELECT id FROM ingestion_runs")) == 1


async def test_an_index_that_came_back_with_less_is_made_anew(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, knowledge_base: str
) -> None:
    before, index_id = await bases.chunk_ids(knowledge_base), await bases.index_id(knowledge_base)
    [number] = await ingestion.rows("SELECT number FROM search.indexes WHERE id = %s", index_id)
    await ingestion.rows(f"DELETE FROM search.passages_{number['number']} WHERE position = 0")
    assert [await worker.inspect() for _ in range(2)] == [0, 0], "it is young"
    await ingestion.rows("UPDATE knowledge_base_indexes SET created_at = now() - interval '2 days'")

    assert [await worker.inspect() for _ in range(2)] == [0, 1]
    await worker.drain()

    assert await bases.chunk_ids(knowledge_base) == before
    assert await bases.index_id(knowledge_base) != index_id


async def test_a_database_restored_without_any_index_makes_them_anew(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, knowledge_base: str
) -> None:
    before = await bases.chunk_ids(knowledge_base)
    await ingestion.rows("DROP SCHEMA search CASCADE")
    await assert_outage(ingestion, knowledge_base)

    assert [await worker.inspect() for _ in range(2)] == [0, 1]
    await worker.drain()

    assert await bases.chunk_ids(knowledge_base) == before
    assert await found(ingestion, knowledge_base) == {"doc-0000.md", "doc-0001.md"}


async def test_a_knowledge_base_that_is_deleted_meanwhile_stays_deleted(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, knowledge_base: str
) -> None:
    await lose(ingestion, await bases.index_id(knowledge_base))
    await worker.inspect()
    await ingestion.rows("UPDATE knowledge_bases SET deleting_at = now()")
    assert await worker.inspect() == 0
    assert len(await ingestion.rows("SELECT id FROM ingestion_runs")) == 1
