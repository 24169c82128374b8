"""Ingestions from the command to the index, while workers are killed, added and disturbed."""

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
