"""Runs and items on a real database, processed inside the test."""

import asyncio
from collections import Counter

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.knowledge_bases import DeleteKnowledgeBase, UpdateKnowledgeBase
from libs.persistence import ReclaimWork
from services.ingestion.adapters.postgres import work_queue
from services.ingestion.adapters.postgres.holders import PostgresHolders
from services.ingestion.domain.embedding import EmbeddingUnavailable
from services.ingestion.domain.files import TextKey
from services.ingestion.domain.runs import ItemKey, RunKey
from tests.integration.ingestion.chunks import chunk_ids
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, documents
from tests.support.held_commits import commits_held
from tests.support.waiting import until

DONE = "NEW.state = 'ingested'"


async def test_an_ingestion_is_told_from_its_queueing_to_its_end(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(3)))
    await worker.drain()

    after = await bases.get(knowledge_base_id)

    assert (after["status"], after["progress"], after["success_rate"]) == ("completed", 100, 100.0)
    assert after["processing_metadata"] == {}
    assert {each["ingestion_status"] for each in after["datasource_snapshots"].values()} == {"completed"}
    told = await ingestion.events()
    assert told[-1] == "knowledge_base.ingestion.completed"
    assert "knowledge_base.ingestion.progress" in told


async def test_ingesting_again_without_a_change_embeds_and_parses_nothing(
    bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(3)))
    await worker.drain()
    embedded, parsed = len(worker.embedders.embedded), len(worker.reader.parsed)

    await bases.ingest(knowledge_base_id)
    between = await bases.get(knowledge_base_id)
    await worker.drain()

    assert between["status"] == "running"
    assert (await bases.get(knowledge_base_id))["status"] == "completed"
    assert embedded > 0
    assert (len(worker.embedders.embedded), len(worker.reader.parsed)) == (embedded, parsed)


async def test_files_that_are_added_and_taken_out_are_ingested_at_once(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    first, second, third = await bases.upload(documents(3))
    knowledge_base_id = await bases.create([first])
    await worker.drain()

    await asyncio.gather(
        *(
            ingestion.run_command(
                UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes={}, add_file_ids=[each], ingest=True)
            )
            for each in (second, third)
        )
    )
    between = await bases.get(knowledge_base_id)
    await worker.drain()
    added = await bases.get(knowledge_base_id)
    taken_out = UpdateKnowledgeBase(
        knowledge_base_id=knowledge_base_id, changes={}, remove_file_ids=[first], ingest=True
    )
    await ingestion.run_command(taken_out)
    await worker.drain()
    left = await bases.get(knowledge_base_id)

    assert between["status"] == "running"
    assert (added["status"], sorted(added["file_ids"])) == ("completed", sorted([first, second, third]))
    assert len(added["ingested_datasources"]) == 3
    assert (left["status"], sorted(left["datasource_snapshots"])) == ("completed", sorted([second, third]))
    unknown = UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes={}, add_file_ids=[new_id()])
    refused = CommandRejected.decode((await ingestion.run_command(unknown)).payload)
    assert refused.error.type == "validation_error"


async def test_ingesting_takes_up_what_is_new_or_failed_and_drops_what_was_taken_out(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    kept, failing, leaving, new = await bases.upload(documents(4))
    worker.reader.broken = {"doc-0001.md"}
    knowledge_base_id = await bases.create([kept, failing, leaving])
    await worker.drain()
    before = await bases.get(knowledge_base_id)
    worker.reader.broken = set()
    changes = {"file_ids": [kept, failing, new]}
    await ingestion.run_command(UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes=changes))

    await bases.ingest(knowledge_base_id)
    await worker.drain()

    after = await bases.get(knowledge_base_id)
    assert (before["status"], list(before["datasource_errors"])) == ("failed", [failing])
    assert (after["status"], after["datasource_errors"]) == ("completed", {})
    assert {each["id"] for each in after["ingested_datasources"]} == {kept, failing, new}
    index_id = await bases.index_id(knowledge_base_id)
    assert index_id is not None
    assert await chunk_ids(bases.engine, index_id, leaving) == []


async def test_the_same_bytes_are_parsed_once_for_all_knowledge_bases(
    bases: KnowledgeBases, worker: InlineWorker
) -> None:
    (name, content), *_ = documents(1)
    files = await bases.upload([(name, content), ("copy.md", content)])
    first, second = await bases.create(files), await bases.create(files)

    await worker.drain()

    assert len(worker.reader.parsed) == 1
    assert [(await bases.get(each))["datasource_count"] for each in (first, second)] == [2, 2]


async def test_an_item_whose_handler_raised_is_done_again(bases: KnowledgeBases, worker: InlineWorker) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    worker.embedders.problems = [RuntimeError("a fault of ours")]
    await worker.drain()
    between = await bases.get(knowledge_base_id)

    async def ended() -> bool:
        await worker.drain()
        return bool((await bases.get(knowledge_base_id))["status"] == "completed")

    assert between["status"] == "running"
    await until(ended, "the item is done again")


async def test_an_outage_of_the_embedding_costs_no_attempts(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    for _ in range(8):
        worker.embedders.problems = [EmbeddingUnavailable("away")]
        await ingestion.rows("UPDATE ingestion_items SET retry_at = NULL")
        await worker.drain()
    await ingestion.rows("UPDATE ingestion_items SET retry_at = NULL")
    await worker.drain()

    assert (await bases.get(knowledge_base_id))["status"] == "completed"


async def test_an_item_that_fails_for_ever_ends_as_failed(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    good, bad = await bases.upload(documents(2))
    knowledge_base_id = await bases.create([good, bad])
    write = worker.engines["pgvector"].write

    async def refuse(index_id: str, chunks: object) -> None:
        if any(chunk.file_id == bad for chunk in chunks):  # type: ignore[attr-defined]
            raise RuntimeError("a fault of ours")
        await write(index_id, chunks)  # type: ignore[arg-type]

    worker.engines["pgvector"].write = refuse  # type: ignore[method-assign]
    for _ in range(7):
        await ingestion.rows("UPDATE ingestion_items SET retry_at = NULL")
        await worker.drain()

    after = await bases.get(knowledge_base_id)
    assert (after["status"], after["success_rate"]) == ("failed", 50.0)
    assert after["datasource_errors"][bad]["code"] == "given_up"
    assert [each["id"] for each in after["ingested_datasources"]] == [good]


@pytest.mark.rule(22)
async def test_a_message_that_was_lost_is_sent_again_and_one_that_comes_twice_is_no_second_claim(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    (file_id,) = await bases.upload(documents(1))
    knowledge_base_id = await bases.create([file_id])
    await worker.step()
    (lost,) = await worker.work_queue.take_due(10)
    assert isinstance(lost.key, ItemKey)
    assert await worker.work_queue.take_due(10) == []

    await worker.reconcile()

    assert [due.key for due in await worker.work_queue.take_due(10)] == [lost.key]
    token = await worker.claim(lost.key.index_id, [file_id])
    assert await worker.items.claim([lost.key], "another") == []
    await worker.items.release(token, [lost.key], seconds=0, counts=False)
    await worker.drain()
    assert (await bases.get(knowledge_base_id))["status"] == "completed"


async def test_items_of_companies_are_sent_in_turn_and_no_more_of_one_than_workers_can_look_ahead(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_queue, "MAX_IN_FLIGHT", 4)
    queue = worker.work_queue
    busy, quiet = [await bases.create(await bases.upload(documents(number))) for number in (12, 2)]
    await worker.step()
    await ingestion.rows(f"UPDATE knowledge_bases SET company_id = 'another' WHERE id = '{quiet}'")
    [row] = await ingestion.rows(f"SELECT index_id FROM ingestion_runs WHERE knowledge_base_id = '{busy}'")
    of_busy = row["index_id"]

    async def sent(most: int) -> list[bool]:
        """Whether each of the items that are sent next is one of the busy company."""
        due = await queue.take_due(most)
        return sorted(isinstance(each.key, ItemKey) and each.key.index_id == of_busy for each in due)

    assert await sent(4) == [False, False, True, True]
    assert await sent(4) == [True] * 4
    # Six are on their way.
    assert await sent(4) == []
    on_their_way = await ingestion.rows(
        f"SELECT file_id FROM ingestion_items WHERE sent_at IS NOT NULL AND index_id = '{of_busy}'"
    )
    await worker.claim(of_busy, [each["file_id"] for each in on_their_way][:4])
    assert await sent(4) == [True] * 4


async def test_items_of_a_companys_knowledge_bases_are_sent_in_turn(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    for number in (12, 2):
        await bases.create(await bases.upload(documents(number)))
    await worker.step()

    due = await worker.work_queue.take_due(4)

    each = Counter(key.index_id for item in due if isinstance(key := item.key, ItemKey))
    assert sorted(each.values()) == [2, 2]


async def test_what_waits_in_a_deleted_knowledge_base_is_not_sent(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(3)))
    await worker.step()
    await ingestion.deliver(DeleteKnowledgeBase(knowledge_base_id=knowledge_base_id))
    waiting = await ingestion.rows("SELECT file_id FROM ingestion_items WHERE sent_at IS NULL")

    assert len(waiting) == 3
    assert await worker.work_queue.take_due(10) == []


async def test_what_a_dead_worker_held_is_done_by_another(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    files = await bases.upload(documents(2))
    knowledge_base_id = await bases.create(files)
    await worker.step()
    [row] = await ingestion.rows("SELECT index_id FROM ingestion_runs")
    lost = await worker.claim(row["index_id"], files)
    await worker.drain()
    held = await bases.get(knowledge_base_id)
    await ingestion.rows("UPDATE ingestion_items SET lease_until = now() - interval '1 second'")

    await worker.reconcile()
    await worker.drain()

    assert held["datasource_count"] == 0
    assert (await bases.get(knowledge_base_id))["status"] == "completed"
    keys = {ItemKey(row["index_id"], file_id): 99 for file_id in files}
    assert await worker.items.ingested(lost, keys) == set(), "what another has done is not taken out again"
    assert not await ingestion.rows("SELECT file_id FROM ingestion_items WHERE chunks = 99")


@pytest.mark.crash("artifacts and ingestion")
@pytest.mark.failover("items of an ingestion")
async def test_what_a_killed_process_held_is_done_by_another_before_its_leases_end(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    gone = 7
    killed = InlineWorker(ingestion.service, ingestion.objects, bases.engine, lease_seconds=600, holder=gone)
    reclaim = ReclaimWork(PostgresHolders(ingestion.service.database), {gone}.intersection)
    files = await bases.upload(documents(2))
    ingesting = await bases.create(files)
    await worker.step()
    [row] = await ingestion.rows("SELECT index_id FROM ingestion_runs")
    lost = await killed.claim(row["index_id"], files)
    [text] = await ingestion.rows("SELECT blob_id, content_type FROM texts LIMIT 1")
    assert await killed.texts.claim([TextKey(text["blob_id"], text["content_type"])], seconds=600)
    planning = await bases.create(files)
    [due] = await killed.work_queue.take_due(10)
    assert isinstance(due.key, RunKey)
    assert await killed.runs.claim(due.key, "its token") is not None
    await worker.drain()
    before = [(await bases.get(each))["status"] for each in (ingesting, planning)]

    await reclaim()
    await worker.drain()

    assert "completed" not in before
    assert [(await bases.get(each))["status"] for each in (ingesting, planning)] == ["completed"] * 2
    assert await killed.items.ingested(lost, {ItemKey(row["index_id"], file_id): 99 for file_id in files}) == set()
    assert not await ingestion.rows("SELECT file_id FROM ingestion_items WHERE chunks = 99")


async def test_what_a_living_process_holds_stays_its_own(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    living = InlineWorker(ingestion.service, ingestion.objects, bases.engine, holder=8)
    reclaim = ReclaimWork(PostgresHolders(ingestion.service.database), {7}.intersection)
    files = await bases.upload(documents(1))
    await bases.create(files)
    await worker.step()
    [row] = await ingestion.rows("SELECT index_id FROM ingestion_runs")
    token = await living.claim(row["index_id"], files)
    await reclaim()
    await worker.drain()
    held = await ingestion.rows("SELECT token, holder FROM ingestion_items")
    assert held == [{"token": token, "holder": 8}]


@pytest.mark.rule(23)
async def test_last_items_finishing_at_once_end_the_run(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    files = await bases.upload(documents(2))
    knowledge_base_id = await bases.create(files)
    await worker.step()
    [row] = await ingestion.rows("SELECT index_id FROM ingestion_runs")
    async with commits_held(ingestion.database_url, "ingestion_items", "UPDATE", DONE) as held:
        finishing = [asyncio.create_task(worker.ingestion([ItemKey(row["index_id"], file_id)])) for file_id in files]
        await held.reached(2)
    await asyncio.gather(*finishing)

    states = await ingestion.rows("SELECT state FROM ingestion_runs")
    assert [each["state"] for each in states] == ["finishing"]
    await worker.drain()
    assert (await bases.get(knowledge_base_id))["status"] == "completed"


async def test_a_run_whose_end_nobody_noticed_is_ended_by_the_reconciler(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    await worker.step()

    async def killed_before(run_id: str) -> bool:
        return False

    with monkeypatch.context() as patch:
        patch.setattr(worker.runs, "complete", killed_before)
        await worker.drain()
    unnoticed = await ingestion.rows("SELECT state FROM ingestion_runs")
    await worker.reconcile()
    await worker.drain()

    assert unnoticed == [{"state": "running"}]
    assert (await bases.get(knowledge_base_id))["status"] == "completed"


async def test_a_status_is_new_to_a_caller_once(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    path = f"/internal/knowledge-bases/{knowledge_base_id}/check_status"

    async def updated() -> bool:
        return bool((await ingestion.get(path)).json()["status_updated"])

    asked = [await updated()]
    await worker.drain()
    asked += [await updated(), await updated()]

    assert asked == [False, True, False]
