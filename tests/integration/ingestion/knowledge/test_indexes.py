"""Files deleted or changed while they are ingested leave nothing behind, and only complete indexes are searched."""

import pytest

from libs.contracts.resources.files import DeleteFile
from libs.contracts.resources.knowledge_bases import DeleteKnowledgeBase, UpdateKnowledgeBase
from tests.integration.ingestion.chunks import chunk_ids
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, documents
from tests.support.waiting import until


async def test_a_file_deleted_while_it_is_written_leaves_nothing(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    kept, deleted = await bases.upload(documents(2))
    knowledge_base_id = await bases.create([kept, deleted])
    await worker.step()
    write = worker.engines["pgvector"].write

    async def delete_meanwhile(index_id: str, chunks: object) -> None:
        await ingestion.run_command(DeleteFile(file_id=deleted))
        worker.engines["pgvector"].write = write  # type: ignore[method-assign]
        await write(index_id, chunks)  # type: ignore[arg-type]

    worker.engines["pgvector"].write = delete_meanwhile  # type: ignore[method-assign]
    await worker.drain()
    await worker.reconcile()
    await worker.drain()

    after = await bases.get(knowledge_base_id)
    index_id = await bases.index_id(knowledge_base_id)
    assert index_id is not None
    assert (after["status"], [each["id"] for each in after["datasources"]]) == ("completed", [kept])
    assert await chunk_ids(bases.engine, index_id, deleted) == []
    assert await chunk_ids(bases.engine, index_id, kept) != []
    assert await ingestion.rows("SELECT file_id FROM ingestion_items WHERE file_id = %s", deleted) == []


async def test_a_knowledge_base_deleted_while_it_is_written_leaves_nothing(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(2)))
    await worker.step()
    write = worker.engines["pgvector"].write

    async def delete_meanwhile(index_id: str, chunks: object) -> None:
        await ingestion.deliver(DeleteKnowledgeBase(knowledge_base_id=knowledge_base_id))
        await until(lambda: bases.is_missing(index_id), "the index is dropped")
        await write(index_id, chunks)  # type: ignore[arg-type]

    worker.engines["pgvector"].write = delete_meanwhile  # type: ignore[method-assign]
    await worker.drain()

    assert (await ingestion.get(f"/internal/knowledge-bases/{knowledge_base_id}")).status_code == 404
    assert await ingestion.rows("SELECT id FROM search.indexes") == []
    assert await ingestion.rows("SELECT file_id FROM ingestion_items") == []
    assert (await ingestion.events())[-1] == "knowledge_base.deleted"
    assert [kind for _, kind in await endings(ingestion)] == ["conflict_error"]


async def endings(ingestion: Ingestion) -> list[tuple[str, str]]:
    """Ends of ingestions as published: "completed", or the type of the error."""
    rows = await ingestion.rows(
        """SELECT convert_from(payload, 'UTF8')::json AS told FROM outbox
           WHERE type ~ 'ingestion.(completed|failed)' ORDER BY id"""
    )
    return [(row["told"]["ingestion_id"], row["told"].get("error", {}).get("type", "completed")) for row in rows]


async def test_an_ingestion_that_another_takes_the_place_of_is_told_to_have_ended(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(2)))
    await worker.step()
    changes = {"chunking_strategy": {"chunk_size": 50, "chunk_overlap": 0}}
    await ingestion.run_command(UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes))

    await bases.ingest(knowledge_base_id)
    await worker.drain()

    first, second = await ingestion.rows("SELECT id, state FROM ingestion_runs ORDER BY id")
    assert (first["state"], second["state"]) == ("superseded", "completed")
    assert await endings(ingestion) == [(first["id"], "conflict_error"), (second["id"], "completed")]
    assert len(await ingestion.rows("SELECT id FROM search.indexes")) == 1


@pytest.mark.rule(24)
async def test_other_settings_build_a_fresh_index_that_is_switched_to_when_it_is_complete(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    files = await bases.upload(documents(2))
    knowledge_base_id = await bases.create(files)
    await worker.drain()
    old = await bases.index_id(knowledge_base_id)
    changes = {"chunking_strategy": {"strategy": "fixed_size", "chunk_size": 50, "chunk_overlap": 0}}
    await ingestion.run_command(UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes))
    await bases.ingest(knowledge_base_id)
    await worker.step()
    during = await bases.index_id(knowledge_base_id)
    embedded = len(worker.embedders.embedded)

    await worker.drain()

    new = await bases.index_id(knowledge_base_id)
    assert old is not None
    assert new is not None
    assert during == old != new
    assert len(worker.embedders.embedded) > embedded
    await until(lambda: bases.is_missing(old), "the old index is dropped")


async def test_an_index_that_was_replaced_stays_for_a_while_for_searches_under_way(
    ingestion: Ingestion, bases: KnowledgeBases
) -> None:
    patient = InlineWorker(ingestion.service, ingestion.objects, bases.engine, grace_seconds=3600)
    (file_id,) = await bases.upload(documents(1))
    knowledge_base_id = await bases.create([file_id])
    await patient.drain()
    old = await bases.index_id(knowledge_base_id)
    assert old is not None
    changes = {"embedding_config": {"dimensions": 64}}
    await ingestion.run_command(UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes))
    await bases.ingest(knowledge_base_id)

    await patient.drain()

    assert await bases.index_id(knowledge_base_id) != old
    assert await chunk_ids(bases.engine, old, file_id) != []
    await ingestion.rows("UPDATE knowledge_base_indexes SET drop_after = now() WHERE id = %s", old)
    await until(lambda: bases.is_missing(old), "the old index is dropped")


@pytest.mark.rule(24)
async def test_a_file_deleted_while_a_new_index_is_built_leaves_both(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    kept, deleted = await bases.upload(documents(2))
    knowledge_base_id = await bases.create([kept, deleted])
    await worker.drain()
    old = await bases.index_id(knowledge_base_id)
    changes = {"embedding_config": {"dimensions": 64}}
    await ingestion.run_command(UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes))
    await bases.ingest(knowledge_base_id)
    await worker.step()
    assert old is not None

    await ingestion.run_command(DeleteFile(file_id=deleted))
    await worker.step()

    assert await chunk_ids(bases.engine, old, deleted) == []
    await worker.drain()
    new = await bases.index_id(knowledge_base_id)
    assert new is not None
    assert await chunk_ids(bases.engine, new, deleted, 64) == []
    assert await chunk_ids(bases.engine, new, kept, 64) != []


async def test_a_worse_index_is_not_switched_to(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(2)))
    await worker.drain()
    old = await bases.index_id(knowledge_base_id)
    changes = {"chunking_strategy": {"strategy": "sentence", "chunk_size": 50, "chunk_overlap": 0}}
    await ingestion.run_command(UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes))
    await bases.ingest(knowledge_base_id)
    await worker.step()
    await ingestion.rows("UPDATE ingestion_items SET attempts = 9 WHERE state = 'pending'")

    await worker.drain()

    assert (await bases.get(knowledge_base_id))["status"] == "failed"
    assert await bases.index_id(knowledge_base_id) == old
    await bases.ingest(knowledge_base_id)
    await worker.drain()
    assert (await bases.get(knowledge_base_id))["status"] == "completed"
    assert await bases.index_id(knowledge_base_id) != old
