"""Knowledge bases and the plans of their runs."""

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.messages import CommandRejected
from libs.contracts.resources.files import DeleteFile
from libs.contracts.resources.knowledge_bases import (
    CreateKnowledgeBase,
)
from services.ingestion.adapters.postgres.work_queue import BACKLOG
from services.ingestion.domain.runs import ClaimedRun, RunKey
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, documents
from tests.support.command_records import unchecked
from tests.support.registry import identity

STRANGER = identity("user-2", "company-2")


async def test_a_name_is_enough(bases: KnowledgeBases) -> None:
    made = await bases.get(await bases.create(name="Harbour"))

    assert (made["status"], made["progress"], made["success_rate"], made["datasources"]) == ("pending", 0, 0.0, [])
    assert (made["dataset_name"], made["normalized_dataset_name"]) == ("Harbour", "harbour")
    assert made["processing_engine"] == "pgvector"
    assert made["embedding_config"] == {"provider": "wordllama", "model": "l2_supercat", "dimensions": 256}
    assert made["chunking_strategy"] == {
        "strategy": "recursive", "chunk_size": 512, "chunk_overlap": 64, "split_by": "token",
        "recursive_separators": ["\n\n", "\n", ". ", " "],
    }  # fmt: skip
    assert (made["created_by_name"], made["company_name"]) == (identity().user_name, identity().company_name)


@pytest.mark.parametrize("whose", ["nobody's", "another company's"])
async def test_files_and_collections_must_be_the_companys(
    ingestion: Ingestion, bases: KnowledgeBases, whose: str
) -> None:
    [own] = await bases.upload(documents(1))
    foreign = new_id() if whose == "nobody's" else (await ingestion.file("a.txt", caller=STRANGER))["id"]
    settings = {"name": "Harbour", "file_ids": [own, foreign], "collection_ids": [foreign]}

    made = await ingestion.run_command(CreateKnowledgeBase(knowledge_base_id=new_id(), settings=settings))

    error = CommandRejected.decode(made.payload).error
    assert error.type == "validation_error"
    assert [detail.loc for detail in error.details or ()] == [["collection_ids", 0], ["file_ids", 1]]
    assert (await ingestion.get("/internal/knowledge-bases")).json()["total"] == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"processing_engine": "weaviate"},
        {"embedding_config": {"provider": "nobody"}},
        {"embedding_config": {"dimensions": 100}},
        {"chunking_strategy": {"chunk_size": 10, "chunk_overlap": 10}},
        {"name": " "},
    ],
)
async def test_what_cannot_be_ingested_with_is_refused_at_once(ingestion: Ingestion, settings: dict[str, str]) -> None:
    body = {"name": "Harbour", **settings}
    made = await ingestion.run_command(unchecked(CreateKnowledgeBase, knowledge_base_id=new_id(), settings=body))
    assert CommandRejected.decode(made.payload).error.type == "validation_error"


async def claimed(ingestion: Ingestion, worker: InlineWorker) -> ClaimedRun | None:
    [run] = await ingestion.rows("SELECT id FROM ingestion_runs")
    return await worker.runs.claim(RunKey(run["id"]), new_id())


async def planned(ingestion: Ingestion) -> list[str]:
    rows = await ingestion.rows("SELECT file_id FROM ingestion_items WHERE state <> 'removing' ORDER BY file_id")
    return [row["file_id"] for row in rows]


async def test_planning_goes_on_where_a_killed_worker_left_it(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    files = sorted(await bases.upload(documents(5)))
    knowledge_base_id = await bases.create(files)
    killed = await claimed(ingestion, worker)
    await bases.engine.create_index(killed.run.index_id, killed.settings.dimensions)
    more = await worker.runs.plan(killed, 2)
    first_step = await planned(ingestion)
    refused = await claimed(ingestion, worker)
    await ingestion.run_command(DeleteFile(file_id=files[0]))
    await ingestion.rows("UPDATE ingestion_runs SET lease_until = now() - interval '1 second'")

    successor = await claimed(ingestion, worker)
    assert successor is not None
    steps = 1
    while await worker.runs.plan(successor, 2):
        steps += 1
    late = await worker.runs.plan(killed, 2)
    await worker.drain()

    assert (more, first_step, refused, steps, late) == (True, files[:2], None, 2, False)
    assert await planned(ingestion) == files[1:]
    after = await bases.get(knowledge_base_id)
    assert (after["status"], after["datasource_count"]) == ("completed", 4)


@pytest.mark.rule(23)
async def test_progress_is_told_once_a_second_at_most(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    await bases.create(await bases.upload(documents(1)))
    run = await claimed(ingestion, worker)

    told = [await worker.runs.publish_progress(run.run) for _ in range(2)]
    await ingestion.rows("UPDATE ingestion_runs SET told_at = told_at - interval '1 second'")
    told.append(await worker.runs.publish_progress(run.run))

    assert [progress is not None for progress in told] == [True, False, True]
    assert await ingestion.events("knowledge_base.ingestion.progress") == ["knowledge_base.ingestion.progress"] * 2


async def test_an_ingestion_that_nobody_plans_waits_to_be_seen(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    idle = await ingestion.rows(f"SELECT ({BACKLOG}) AS waiting")
    await bases.create(await bases.upload(documents(1)))
    unplanned = await planned(ingestion)
    waiting = await ingestion.rows(f"SELECT ({BACKLOG}) AS waiting")
    await worker.drain()

    assert (idle, unplanned, waiting) == ([{"waiting": 0}], [], [{"waiting": 1}])
    assert await ingestion.rows(f"SELECT ({BACKLOG}) AS waiting") == idle
