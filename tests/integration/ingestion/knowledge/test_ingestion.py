"""Ingestions from the command to the index, while workers are killed, added and disturbed."""

import asyncio

import pytest

from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.workers import KnowledgeBases, WorkerProcesses, documents, open_gate, shut_gate
from tests.support.waiting import until


async def test_files_become_searchable_and_the_record_says_so(bases: KnowledgeBases, workers: WorkerProcesses) -> None:
    files = await bases.upload([*documents(6), ("broken.pdf", b"%PDF-1.7\nbroken")])
    knowledge_base_id = await bases.create(files)
    before = await bases.get(knowledge_base_id)
    workers.start()

    after = await bases.ended(knowledge_base_id)

    assert (before["status"], before["progress"], before["total_datasources"]) == ("pending", 0, 7)
    assert (after["status"], after["progress"]) == ("failed", 100)
    assert (after["datasource_count"], after["total_datasources"]) == (6, 7)
    assert list(after["datasource_errors"]) == [files[-1]]
    assert after["datasource_errors"][files[-1]]["phase"] == "parsing"
    assert len(await bases.chunk_ids(knowledge_base_id)) == after["processing_metadata"]["processed_chunks"] > 6


async def both_hold_items(ingestion: Ingestion) -> bool:
    """Whether two workers have claimed items that they have not committed yet."""
    [row] = await ingestion.rows(
        "SELECT count(DISTINCT holder) AS holders FROM ingestion_items WHERE state = 'running'"
    )
    return bool(row["holders"] == 2)


@pytest.mark.crash("artifacts and ingestion")
@pytest.mark.slow
async def test_workers_added_and_removed_in_the_middle_lose_and_double_nothing(
    ingestion: Ingestion, bases: KnowledgeBases, workers: WorkerProcesses
) -> None:
    files = await bases.upload(documents(60))
    shut_gate(ingestion.database_url, most=5)
    settings = {"AES_INGESTION_STREAMS_BATCH": "1", "AES_INGESTION_STREAMS_BATCHES": "1"}
    leaving = workers.start(**settings)
    knowledge_base_id = await bases.create(files)

    async def works(worker: int) -> bool:
        return workers.items_done()[worker] > 3

    await until(lambda: works(0), "the first worker works", pause=0.1)
    workers.start(**settings)
    await until(lambda: workers.joined(2), "the added worker has a part of the work", pause=0.1)
    # Of what was sent before, the first worker may have read everything ahead.
    later = await bases.create(files)
    await until(lambda: both_hold_items(ingestion), "the added worker works as well")
    leaving.terminate()
    open_gate(ingestion.database_url)
    ended = [await bases.ended(each) for each in (knowledge_base_id, later)]

    assert [(each["status"], each["datasource_count"]) for each in ended] == [("completed", len(files))] * 2
    assert await asyncio.to_thread(leaving.wait, 60) == 0
    undisturbed = await bases.create(files)
    await bases.ended(undisturbed)
    chunks = await bases.chunk_ids(undisturbed)
    assert await bases.chunk_ids(knowledge_base_id) == await bases.chunk_ids(later) == chunks
    assert len(chunks) == len(set(chunks)) >= len(files)


@pytest.mark.crash("artifacts and ingestion")
@pytest.mark.slow
async def test_a_worker_killed_in_the_middle_leaves_the_index_of_an_undisturbed_ingestion(
    ingestion: Ingestion, bases: KnowledgeBases, workers: WorkerProcesses
) -> None:
    files = await bases.upload(documents(40))
    shut_gate(ingestion.database_url, most=12)
    knowledge_base_id = await bases.create(files)
    # Its end is seen by the lock that shows that it lives.
    victim = workers.start(AES_INGESTION_STREAMS_BATCH="4", AES_INGESTION_LEASE_SECONDS="3600")

    async def some_are_done() -> bool:
        return int((await bases.get(knowledge_base_id))["datasource_count"]) >= 8

    await until(some_are_done, "some files are ingested", pause=0.1)
    victim.kill()
    workers.start()
    open_gate(ingestion.database_url)

    after = await bases.ended(knowledge_base_id)

    assert (after["status"], after["datasource_count"]) == ("completed", 40)
    undisturbed = await bases.create(files)
    await bases.ended(undisturbed)
    assert await bases.chunk_ids(knowledge_base_id) == await bases.chunk_ids(undisturbed)
    assert len(set(await bases.chunk_ids(undisturbed))) == len(await bases.chunk_ids(undisturbed))


@pytest.mark.outage("PostgreSQL")
@pytest.mark.slow
async def test_connections_lost_in_the_middle_leave_the_index_of_an_undisturbed_ingestion(
    ingestion: Ingestion, bases: KnowledgeBases, workers: WorkerProcesses
) -> None:
    files = await bases.upload(documents(30))
    shut_gate(ingestion.database_url, most=1)
    undisturbed, knowledge_base_id = await bases.create(files), await bases.create(files)
    worker = workers.start(AES_INGESTION_STREAMS_BATCH="2", AES_INGESTION_STREAMS_BATCHES="1")

    async def cut() -> bool:
        cut = await ingestion.rows(
            """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'aes-ingestion' AND state = 'active'
                 AND pid <> pg_backend_pid()"""
        )
        lost.append(len(cut))
        counted = await ingestion.rows("SELECT count(*) AS done FROM ingestion_items WHERE state = 'ingested'")
        return sum(lost) >= 5 or bool(counted[0]["done"] == 60)

    async def has_cut() -> bool:
        await cut()
        return sum(lost) > 0

    lost: list[int] = []
    await until(has_cut, "the connection that works is lost")
    open_gate(ingestion.database_url)
    await until(cut, "connections are lost while there is work", pause=0.1)

    assert (await bases.ended(knowledge_base_id))["datasource_count"] == 30
    assert (await bases.ended(undisturbed))["datasource_count"] == 30
    assert worker.poll() is None
    chunks = await bases.chunk_ids(knowledge_base_id)
    assert chunks == await bases.chunk_ids(undisturbed)
    assert len(chunks) == len(set(chunks)) >= 30
