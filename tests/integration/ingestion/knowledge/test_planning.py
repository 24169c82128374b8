"""Another worker continues the planning of a run after a crash; progress is published at most once a second."""

import pytest

from libs.contracts.identifiers import new_id
from libs.contracts.resources.files import DeleteFile
from services.ingestion.adapters.postgres.work_queue import BACKLOG
from services.ingestion.domain.runs import ClaimedRun, RunKey
from tests.integration.ingestion.conftest import Ingestion
from tests.support.ingestion_workers import KnowledgeBases, documents
from tests.support.inline_ingestion import InlineWorker


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
    assert killed is not None
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
    assert run is not None

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
