"""Processes that change several rows at once take them in one order: PostgreSQL never has to end a deadlock."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence

import pytest

from libs.blobs import CollectBlobs
from libs.contracts.identifiers import new_id
from libs.contracts.resources.files import ChangeFiles
from services.ingestion.domain.engines import IndexedChunk
from services.ingestion.domain.runs import Due, ItemKey
from tests.integration.ingestion.chunks import DIMENSIONS, SEA, chunk
from tests.integration.ingestion.conftest import Ingestion
from tests.integration.ingestion.inline_ingestion import InlineWorker
from tests.integration.ingestion.workers import KnowledgeBases, documents, execute
from tests.support.waiting import until

ROUNDS = 30
# Changes that lock as they go meet nearly every time.
SLOW_ROWS = """
    CREATE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_sleep(0.001); RETURN coalesce(NEW, OLD); END $$;
    CREATE TRIGGER slow BEFORE UPDATE OR DELETE ON ingestion_items FOR EACH ROW EXECUTE FUNCTION slowly();
    CREATE TRIGGER slow BEFORE UPDATE OR DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION slowly();
"""
SLOW_CHUNKS = "CREATE TRIGGER slow BEFORE INSERT OR DELETE ON {} FOR EACH ROW EXECUTE FUNCTION slowly()"


@pytest.fixture
def bases(ingestion: Ingestion) -> KnowledgeBases:
    return KnowledgeBases(ingestion)


@pytest.fixture
def worker(ingestion: Ingestion, bases: KnowledgeBases) -> InlineWorker:
    return InlineWorker(ingestion.service, ingestion.objects, bases.engine)


async def deadlocks(ingestion: Ingestion) -> int:
    """Counted by the server, whether or not somebody tried again. Connections have reported when they are gone."""
    await ingestion.service.database.close()

    async def all_have_reported() -> bool:
        others = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return not await ingestion.rows(others)

    await until(all_have_reported, "the others have left the database")
    [row] = await ingestion.rows("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
    return int(row["deadlocks"])


@pytest.mark.slow(covered_by="test_changes_of_the_same_items")
async def test_writers_of_the_same_chunks(ingestion: Ingestion, bases: KnowledgeBases) -> None:
    chance = random.Random(7)
    chunks = [chunk(f"p{n}", f"passage {n}", SEA, file_id=f"f{n % 7}", position=n) for n in range(40)]
    execute(ingestion.database_url, SLOW_ROWS)
    for _ in range(ROUNDS):
        index_id = new_id()
        await bases.engine.create_index(index_id, DIMENSIONS)
        [row] = await ingestion.rows("SELECT 'search.passages_' || number AS name FROM search.indexes")
        await ingestion.rows(SLOW_CHUNKS.format(row["name"]))

        async def write(some: Sequence[IndexedChunk], index_id: str = index_id) -> None:
            await bases.engine.write(index_id, some)

        await asyncio.gather(*(write(chance.sample(chunks, 40)) for _ in range(3)))
        assert await bases.engine.count(index_id) == 40
        await asyncio.gather(
            bases.engine.delete_files(index_id, [f"f{n}" for n in range(7)]),
            bases.engine.delete_files(index_id, [f"f{n}" for n in reversed(range(7))]),
            bases.engine.finish(index_id),
            bases.engine.finish(index_id),
        )
        await bases.engine.drop_index(index_id)

    assert await deadlocks(ingestion) == 0


async def test_changes_of_the_same_items(ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker) -> None:
    chance = random.Random(8)
    files = await bases.upload(documents(12, words=3))
    await bases.create(files)
    await worker.step()
    [row] = await ingestion.rows("SELECT id, index_id FROM ingestion_runs")
    execute(ingestion.database_url, SLOW_ROWS)
    token, index_id = new_id(), row["index_id"]

    def keys() -> list[ItemKey]:
        return [ItemKey(index_id, file_id) for file_id in chance.sample(files, len(files))]

    def counts() -> dict[ItemKey, int]:
        return dict.fromkeys(keys(), 1)

    def due() -> list[Due]:
        return [Due(key, "company", "label") for key in keys()]

    changes: list[Callable[[], Awaitable[object]]] = [
        lambda: worker.items.advance(token, counts(), "parsing"),
        lambda: worker.items.advance(token, counts(), "embedding"),
        lambda: worker.items.renew([token]),
        lambda: worker.items.ingested(token, counts()),
        lambda: worker.items.release(token, keys(), seconds=0, counts=False),
        lambda: worker.items.removed(token, keys()),
        lambda: worker.work_queue.requeue(due()),
        lambda: worker.work_queue.reconcile(0.0),
        lambda: ingestion.rows("UPDATE files SET updated_at = now() WHERE id = ANY (%s)", files[:1]),
    ]
    for _ in range(ROUNDS):
        await ingestion.rows(
            """UPDATE ingestion_items SET state = 'running', token = %s, sent_at = now() - interval '1 minute',
                   lease_until = now() + interval '1 minute'""",
            token,
        )
        await asyncio.gather(*(change() for change in chance.sample(changes, len(changes))))

    assert await deadlocks(ingestion) == 0


async def test_deletions_of_files_that_are_being_worked_at(
    ingestion: Ingestion, bases: KnowledgeBases, worker: InlineWorker
) -> None:
    chance = random.Random(9)
    collect = CollectBlobs(
        database=ingestion.service.database, store=ingestion.objects, owner="files", keep_hours=0, upload_hours=0,
        grace_minutes=0,
    )  # fmt: skip
    execute(ingestion.database_url, SLOW_ROWS)
    contents = documents(10, words=3)
    for _ in range(5):
        files = await bases.upload(contents)
        await bases.create(files)
        await worker.step()
        [row] = await ingestion.rows("SELECT index_id FROM ingestion_runs ORDER BY id DESC LIMIT 1")
        token = await worker.claim(row["index_id"], files)
        keys = [ItemKey(row["index_id"], file_id) for file_id in chance.sample(files, len(files))]
        await asyncio.gather(
            ingestion.run_command(ChangeFiles(operation="delete", file_ids=chance.sample(files, len(files)))),
            ingestion.upload(*chance.sample(contents, 5)),
            ingestion.upload(*chance.sample(contents, 5)),
            worker.items.ingested(token, dict.fromkeys(keys, 1)),
            worker.items.release(token, keys, seconds=0, counts=False),
            collect(),
            collect(),
        )
        await asyncio.gather(collect(), collect())

    assert await deadlocks(ingestion) == 0
