"""Generated rows are what the services read and remove."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest_asyncio

from benchmarks.scaling import Purges, database_at
from benchmarks.scaling_rows import EVENTS_OF_A_TURN, TURNS_OF_A_SESSION, KnowledgeBase, Rows, Sessions, Stores, execute
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity, Scope
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.bootstrap import MIGRATIONS as INGESTION
from services.ingestion.domain.documents import Chunk
from services.ingestion.domain.engines import IndexedChunk, Query
from services.ingestion.domain.ranking import search
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.bootstrap import MIGRATIONS as RUNTIME
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.bootstrap import MIGRATIONS as TIMELINE
from tests.support.generated_rows import fill
from tests.support.infrastructure import Infrastructure

COMPANY, OWNER, BASE, INDEX, FILE = (new_id() for _ in range(5))
SESSIONS = 40
TURNS = SESSIONS * TURNS_OF_A_SESSION


@pytest_asyncio.fixture
async def stores(infrastructure: Infrastructure) -> AsyncIterator[Stores]:
    migrations = {f"test_{secrets.token_hex(6)}": each for each in (RUNTIME, TIMELINE, INGESTION)}
    yield Stores(*[await infrastructure.create_migrated(name, each) for name, each in migrations.items()])
    for name in migrations:
        await infrastructure.drop_database(name)


async def test_generated_sessions_are_found_and_a_purge_leaves_what_has_not_expired(stores: Stores) -> None:
    async with database_at(stores.timeline) as database:
        for age in range(30):
            await PostgresTimelinePartitions(database).make(datetime.now(UTC).date() - timedelta(days=age))
    stores.reserve_outbox_ids()
    rows = Rows(stores, COMPANY, OWNER)
    sessions = Sessions.planned(rows, SESSIONS)
    sessions.add(1, 3)
    sessions.add(4, SESSIONS)
    stores.settle()

    caller = Identity(company_id=COMPANY, user_id=OWNER, key_id="k", scopes=frozenset({Scope.SESSIONS_READ}))
    async with database_at(stores.runtime) as database:
        assert await PostgresSessionReads(database).session("grown-s00000040", caller) is not None
    days = [day for (day,) in execute(stores.timeline, "SELECT day FROM timeline_events ORDER BY position")]
    assert days == sorted(days)
    assert len(set(days)) == 30

    purges = Purges(rows)
    first, second = await purges.measure(), await purges.measure()

    assert first.keys() == second.keys()
    assert all(took > 0 for took in second.values())
    counts = {"sessions": SESSIONS, "turns": TURNS, "messages": 2 * TURNS}
    assert {table: execute(stores.runtime, f"SELECT count(*) FROM {table}") for table in counts} == {
        table: [(count,)] for table, count in counts.items()
    }
    kept = "SELECT count(*) FROM outbox WHERE event_id LIKE 'grown-e%'"
    assert execute(stores.runtime, kept) == [(SESSIONS,)]
    assert execute(stores.runtime, "SELECT sum(amount) FROM company_amounts") == [(SESSIONS,)]
    events = "SELECT count(*), min(position), max(position) FROM timeline_events"
    assert execute(stores.timeline, events) == [(TURNS * EVENTS_OF_A_TURN, 1, TURNS * EVENTS_OF_A_TURN)]


async def test_copies_of_a_knowledge_base_are_searched(stores: Stores) -> None:
    async with database_at(stores.ingestion) as database:
        engine, embedder = PgvectorEngine(database), StaticEmbedder()
        run_id, text = new_id(), "The lighthouse is white."
        with psycopg.connect(stores.ingestion, autocommit=True) as connection:
            fill(connection, "knowledge_bases", 1, texts(id=BASE, index_id=INDEX, run_id=run_id))
            fill(connection, "knowledge_base_indexes", 1, texts(id=INDEX, knowledge_base_id=BASE))
            fill(connection, "ingestion_runs", 1, texts(id=run_id, knowledge_base_id=BASE, index_id=INDEX))
            fill(connection, "blobs", 1, texts(id="blob"))
            fill(connection, "files", 1, texts(id=FILE, name="tower.md", company_id=COMPANY, blob_id="blob"))
            fill(connection, "ingestion_items", 1, texts(index_id=INDEX, file_id=FILE, run_id=run_id))
        await engine.create_index(INDEX, embedder.dimensions)
        [vector] = await embedder.embed([text])
        await engine.write(INDEX, [IndexedChunk(FILE, Chunk("chunk", 0, text, 0, len(text)), vector)])
        await engine.finish(INDEX)

        base = KnowledgeBase.find(stores, BASE)
        base.copy(stores, 1, 2)
        base.copy(stores, 3, 3)

        copies = execute(stores.ingestion, "SELECT index_id FROM knowledge_bases WHERE id <> %s", (BASE,))
        assert len(copies) == 3
        for (index_id,) in copies:
            for query in (Query("lighthouse", vector, "semantic", 10), Query("lighthouse", None, "keyword", 10)):
                [hit] = await search(engine, index_id, query)
                assert hit.file_id != FILE
                names = execute(stores.ingestion, "SELECT name FROM files WHERE id = %s", (hit.file_id,))
                assert names == [("tower.md",)]


def texts(**values: str) -> dict[str, str]:
    return {column: f"'{value}'" for column, value in values.items()}
