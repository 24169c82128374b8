"""Runs that cannot go on end with the reason, and hold nothing else up."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from libs.contracts.errors import StoreUnavailable
from libs.contracts.resources.knowledge_bases import DeleteKnowledgeBase, UpdateKnowledgeBase
from libs.fairness import Capacity
from services.ingestion.domain.engines import EngineUnavailable, IndexMissing
from services.ingestion.domain.files import TextKey, UnparsedText
from services.ingestion.domain.runs import Claims, RunKey
from services.ingestion.use_cases.advance_run import MOST_ATTEMPTS
from services.ingestion.use_cases.document_loader import ParseAhead
from services.ingestion.use_cases.index_care import DropIndexes
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, documents
from tests.support.registry import identity

FAILED = "knowledge_base.ingestion.failed"


class Broken:
    """A method of the engine that raises; `calls` counts how often it did."""

    def __init__(self, problem: Exception) -> None:
        self.problem = problem
        self.calls = 0

    async def __call__(self, *_: Any) -> Any:
        self.calls += 1
        raise self.problem


async def collect(ingestion: Ingestion, file_ids: Sequence[str]) -> None:
    """Puts files into a collection, from which they are parsed ahead."""
    await ingestion.rows(
        "INSERT INTO collections (id, company_id, name, description, created_by, published, correlation_id)"
        " VALUES ('c', '', '', '', '', '{}', '')"
    )
    for file_id in file_ids:
        await ingestion.rows("INSERT INTO collection_files (collection_id, file_id) VALUES ('c', %s)", file_id)


@pytest.fixture
def retried(ingestion: Ingestion, worker: InlineWorker) -> Callable[[int], Awaitable[None]]:
    async def times(count: int) -> None:
        """So often what is due is worked off and the pauses of retries pass."""
        for _ in range(count):
            await worker.drain()
            for table in ("ingestion_runs", "ingestion_items"):
                await ingestion.rows(f"UPDATE {table} SET retry_at = NULL")

    return times


@pytest.mark.parametrize(("step", "told"), [("create_index", "planned"), ("finish", "completed")])
async def test_a_step_that_raises_every_time_fails_its_run_with_the_reason(
    ingestion: Ingestion,
    bases: KnowledgeBases,
    worker: InlineWorker,
    retried: Callable[[int], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    told: str,
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    broken = Broken(ZeroDivisionError("a secret"))
    with monkeypatch.context() as patch:
        patch.setattr(bases.engine, step, broken)
        await retried(2 * MOST_ATTEMPTS)
    failed = await bases.get(knowledge_base_id)
    events = await ingestion.rows("SELECT payload, cause FROM outbox WHERE type = %s", f"aes.ingestion.{FAILED}.v1")
    await bases.ingest(knowledge_base_id)
    await worker.drain()
    after = await bases.get(knowledge_base_id)

    reason = f"The ingestion couldn't be {told} in {MOST_ATTEMPTS} attempts (ZeroDivisionError)."
    assert broken.calls == MOST_ATTEMPTS
    assert (failed["status"], failed["progress"]) == ("failed", 100)
    assert failed["processing_metadata"]["message"] == reason
    [event] = events
    assert reason in bytes(event["payload"]).decode()
    assert event["cause"].startswith("ZeroDivisionError at services.ingestion.use_cases.advance_run:")
    assert (after["status"], after["processing_metadata"]) == ("completed", {})


async def test_an_outage_is_no_attempt(
    bases: KnowledgeBases,
    worker: InlineWorker,
    retried: Callable[[int], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    away = Broken(EngineUnavailable("it does not answer"))
    for step in ("create_index", "finish"):
        with monkeypatch.context() as patch:
            patch.setattr(bases.engine, step, away)
            await retried(2 * MOST_ATTEMPTS)
    await worker.drain()

    assert away.calls == 4 * MOST_ATTEMPTS
    assert (await bases.get(knowledge_base_id))["status"] == "completed"


async def test_a_run_with_which_every_worker_dies_has_an_end(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(1)))
    [row] = await ingestion.rows("SELECT id FROM ingestion_runs")
    for number in range(MOST_ATTEMPTS):
        assert await worker.runs.claim(RunKey(row["id"]), f"token {number}") is not None
        await ingestion.rows("UPDATE ingestion_runs SET lease_until = now() - interval '1 second'")

    await worker.drain()

    failed = await bases.get(knowledge_base_id)
    assert (failed["status"], await ingestion.events(FAILED)) == ("failed", [FAILED])
    assert "the worker stopped" in failed["processing_metadata"]["message"]


async def test_a_file_that_cannot_be_taken_out_fails_the_run_and_is_taken_out_later(
    ingestion: Ingestion,
    bases: KnowledgeBases,
    worker: InlineWorker,
    retried: Callable[[int], Awaitable[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = await bases.upload(documents(2))
    knowledge_base_id = await bases.create([first, second])
    await worker.drain()
    change = UpdateKnowledgeBase(knowledge_base_id=knowledge_base_id, changes={}, remove_file_ids=[first], ingest=True)
    await ingestion.run_command(change)
    with monkeypatch.context() as patch:
        patch.setattr(bases.engine, "delete_files", Broken(RuntimeError("no")))
        await retried(2 * MOST_ATTEMPTS)
    failed = await bases.get(knowledge_base_id)
    await retried(1)
    await bases.ingest(knowledge_base_id)
    await worker.drain()

    assert failed["status"] == "failed"
    assert "couldn't be removed" in failed["processing_metadata"]["message"]
    assert (await bases.get(knowledge_base_id))["status"] == "completed"
    assert not await ingestion.rows("SELECT 1 FROM ingestion_items WHERE file_id = %s", first)


async def test_an_index_that_is_lost_while_it_is_completed_is_replaced(
    bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    knowledge_base_id = await bases.create(await bases.upload(documents(2)))
    finish, lost = bases.engine.finish, []

    async def dropped(index_id: str) -> None:
        if not lost:
            lost.append(index_id)
            await bases.engine.drop_index(index_id)
            raise IndexMissing(index_id)
        await finish(index_id)

    monkeypatch.setattr(bases.engine, "finish", dropped)
    await worker.drain()

    assert (await bases.get(knowledge_base_id))["status"] == "completed"
    assert await bases.index_id(knowledge_base_id) not in lost
    assert await bases.chunk_ids(knowledge_base_id)


async def test_an_index_that_cannot_be_dropped_keeps_no_other_from_it(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, gone = [await bases.create(await bases.upload([each])) for each in documents(2)]
    await worker.drain()
    of_kept, of_gone = [await bases.index_id(each) for each in (kept, gone)]
    engine = type(bases.engine)
    drop = engine.drop_index

    async def failing(self: Any, index_id: str) -> None:
        if index_id == of_kept:
            raise ValueError("not this one")
        await drop(self, index_id)

    with monkeypatch.context() as patch:
        # Of the class, since the service drops indexes on its own, too.
        patch.setattr(engine, "drop_index", failing)
        for each in (kept, gone):
            await ingestion.deliver(DeleteKnowledgeBase(knowledge_base_id=each))
        await DropIndexes(worker.index_deletion, worker.engines)()
        left = [row["id"] for row in await ingestion.rows("SELECT id FROM knowledge_base_indexes")]
    await DropIndexes(worker.index_deletion, worker.engines)()

    assert left == [of_kept]
    assert of_gone is not None
    assert await bases.is_missing(of_gone)
    assert not await ingestion.rows("SELECT id FROM knowledge_base_indexes")


async def test_a_text_that_cannot_be_parsed_ahead_is_given_up(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    file_ids = await bases.upload([("poison.txt", b"poison"), ("good.txt", b"good")])
    await collect(ingestion, file_ids)
    parse, tried = worker.reader.parse, []

    async def parsing(path: Any, name: str, *content: Any, **options: Any) -> Any:
        if name == "poison.txt":
            tried.append(name)
            raise ZeroDivisionError
        return await parse(path, name, *content, **options)

    monkeypatch.setattr(worker.reader, "parse", parsing)
    ahead = ParseAhead(worker.work_queue, worker.loading, Claims(), 2)
    for _ in range(10):
        await ahead()
        await ingestion.rows("UPDATE texts SET lease_until = now() - interval '1 second'")

    states = await ingestion.rows("SELECT state, error_code, attempts FROM texts ORDER BY state")
    assert states == [
        {"state": "failed", "error_code": "given_up", "attempts": 5},
        {"state": "parsed", "error_code": None, "attempts": 1},
    ]
    assert len(tried) == 5


async def test_an_outage_is_no_attempt_of_a_text_either(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bases.upload([("good.txt", b"good")])
    [row] = await ingestion.rows("SELECT blob_id, content_type, company_id FROM files")

    async def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailable("away")

    monkeypatch.setattr(worker.reader, "parse", away)
    text = UnparsedText(TextKey(row["blob_id"], row["content_type"]), "good.txt", row["company_id"], 0)
    [claimed] = await worker.loading.claim([text])
    await worker.loading.parse_ahead(claimed)

    assert await ingestion.rows("SELECT state, attempts FROM texts") == [{"state": "running", "attempts": 0}]


async def test_companies_take_turns_in_texts_parsed_ahead(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    file_ids = await bases.upload(documents(4))
    other = await ingestion.file("other.txt", b"other", caller=identity(company="other"))
    await collect(ingestion, [*file_ids, other["id"]])

    first = await worker.work_queue.unparsed(Capacity(2, 2))
    beside = await worker.work_queue.unparsed(Capacity(2, 2, {first[0].company_id: 2, first[1].company_id: 1}))

    assert len({text.company_id for text in first}) == 2
    assert len(beside) == 1
    assert {text.company_id for text in await worker.work_queue.unparsed(Capacity(2, 2, {"other": 2}))} == {
        text.company_id for text in first
    } - {"other"}
