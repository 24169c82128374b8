"""Generated rows are what the services read and remove."""

import secrets
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
import pytest_asyncio

from benchmarks.scaling.passages import KnowledgeBase
from benchmarks.scaling.purge import PurgeTimes
from benchmarks.scaling.rows import EVENTS_OF_A_TURN, TURNS_OF_A_SESSION, Sessions, Stores
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity, Scope
from libs.persistence import Database
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions
from services.gateway.bootstrap import MIGRATIONS as GATEWAY
from services.ingestion.adapters.embeddings.static import StaticEmbedder
from services.ingestion.adapters.engines.pgvector.engine import PgvectorEngine
from services.ingestion.bootstrap import MIGRATIONS as INGESTION
from services.ingestion.domain.engines import IndexedChunk, Mode, Query
from services.ingestion.domain.ranking import search
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.bootstrap import MIGRATIONS as RUNTIME
from tests.support.generated_rows import fill
from tests.support.infrastructure import Infrastructure

COMPANY, OWNER = new_id(), new_id()
SESSIONS = 40
EVENTS = SESSIONS * TURNS_OF_A_SESSION * EVENTS_OF_A_TURN
KNOWLEDGE_BASE, INDEX, RUN, FILE = new_id(), new_id(), new_id(), new_id()


@pytest_asyncio.fixture
async def stores(infrastructure: Infrastructure) -> AsyncIterator[Stores]:
    names = [f"test_{secrets.token_hex(6)}" for _ in range(3)]
    urls = [
        await infrastructure.create_migrated(name, migrations)
        for name, migrations in zip(names, (RUNTIME, GATEWAY, INGESTION), strict=True)
    ]
    yield Stores(*urls)
    for name in names:
        await infrastructure.drop_database(name)


@pytest_asyncio.fixture
async def runtime(stores: Stores) -> AsyncIterator[Database]:
    database = Database(stores.runtime, name="test", timeout=30.0)
    await database.open()
    yield database
    await database.close()


@pytest_asyncio.fixture
async def grown(stores: Stores) -> Stores:
    database = Database(stores.gateway, name="test", timeout=30.0)
    await database.open()
    for age in range(30):
        await PostgresTimelinePartitions(database).make(today() - timedelta(days=age))
    await database.close()
    stores.reserve_outbox_ids()
    sessions = Sessions.planned(stores, COMPANY, OWNER, SESSIONS)
    sessions.add(1, 3)
    sessions.add(4, SESSIONS)
    sessions.settle()
    return stores


async def test_generated_sessions_are_found(grown: Stores, runtime: Database) -> None:
    caller = Identity(company_id=COMPANY, user_id=OWNER, key_id="k", scopes=frozenset({Scope.SESSIONS_READ}))
    session = await PostgresSessionReads(runtime).session("grown-s00000040", caller)

    assert session is not None
    assert rows(grown.gateway, "SELECT count(*), min(position), max(position) FROM timeline_events") == [
        (EVENTS, 1, EVENTS)
    ]
    assert rows(grown.gateway, "SELECT position FROM timeline_counters") == [(EVENTS,)]
    assert rows(grown.runtime, "SELECT sum(amount) FROM company_amounts") == [(SESSIONS,)]


async def test_positions_in_the_timeline_go_up_with_the_days(grown: Stores) -> None:
    found = rows(grown.gateway, "SELECT day FROM timeline_events ORDER BY position")

    assert found == sorted(found)
    assert len(set(found)) == 30
    assert found[-1] == (today(),)


async def test_a_purge_leaves_what_has_not_expired(grown: Stores) -> None:
    purges = PurgeTimes(grown, COMPANY, OWNER)
    first, second = await purges.measure(), await purges.measure()

    assert first.keys() == second.keys()
    assert all(took > 0 for took in second.values())
    assert rows(grown.runtime, "SELECT count(*) FROM sessions") == [(SESSIONS,)]
    assert rows(grown.runtime, "SELECT count(*) FROM turns") == [(SESSIONS * TURNS_OF_A_SESSION,)]
    assert rows(grown.runtime, "SELECT count(*) FROM messages") == [(2 * SESSIONS * TURNS_OF_A_SESSION,)]
    assert rows(grown.runtime, "SELECT count(*) FROM outbox WHERE event_id LIKE 'grown-e%'") == [(SESSIONS,)]
    assert rows(grown.runtime, "SELECT count(*) FROM inbox") == [(SESSIONS,)]
    assert rows(grown.gateway, "SELECT count(*) FROM idempotency_keys") == [(SESSIONS,)]
    assert rows(grown.gateway, "SELECT count(*) FROM timeline_events") == [(EVENTS,)]
    assert rows(grown.runtime, "SELECT sum(amount) FROM company_amounts") == [(SESSIONS,)]


@pytest.mark.parametrize("mode", ["semantic", "keyword"])
async def test_copies_of_a_knowledge_base_are_searched(stores: Stores, mode: Mode) -> None:
    database = Database(stores.ingestion, name="test", timeout=30.0)
    await database.open()
    try:
        engine, embedder = PgvectorEngine(database), StaticEmbedder()
        await add_knowledge_base(stores, engine, embedder)
        base = KnowledgeBase.find(stores, KNOWLEDGE_BASE)
        base.copy(stores, 1, 2)
        base.copy(stores, 3, 3)
        base.settle(stores)

        copies = rows(stores.ingestion, f"SELECT id, index_id FROM knowledge_bases WHERE id <> '{KNOWLEDGE_BASE}'")
        assert len(copies) == 3
        for _, index_id in copies:
            vector = None if mode == "keyword" else (await embedder.embed(["lighthouse"]))[0]
            [hit] = await search(engine, index_id, Query("lighthouse", vector, mode, 10))
            names = rows(stores.ingestion, f"SELECT name FROM files WHERE id = '{hit.file_id}'")
            assert names == [("tower.md",)]
            assert hit.file_id != FILE
    finally:
        await database.close()


async def add_knowledge_base(stores: Stores, engine: PgvectorEngine, embedder: StaticEmbedder) -> None:
    def add() -> None:
        with psycopg.connect(stores.ingestion, autocommit=True) as connection:
            fill(connection, "knowledge_bases", 1, texts(id=KNOWLEDGE_BASE, index_id=INDEX, run_id=RUN))
            fill(connection, "knowledge_base_indexes", 1, texts(id=INDEX, knowledge_base_id=KNOWLEDGE_BASE))
            fill(connection, "ingestion_runs", 1, texts(id=RUN, knowledge_base_id=KNOWLEDGE_BASE, index_id=INDEX))
            fill(connection, "blobs", 1, texts(id="blob"))
            fill(connection, "files", 1, texts(id=FILE, name="tower.md", company_id=COMPANY, blob_id="blob"))
            fill(connection, "ingestion_items", 1, texts(index_id=INDEX, file_id=FILE, run_id=RUN))

    add()
    await engine.create_index(INDEX, embedder.dimensions)
    text = "The lighthouse is white."
    [vector] = await embedder.embed([text])
    await engine.write(INDEX, [IndexedChunk("chunk", FILE, 0, text, vector, 0, len(text))])
    await engine.finish(INDEX)


def texts(**values: str) -> dict[str, str]:
    return {column: f"'{value}'" for column, value in values.items()}


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


def today() -> date:
    return datetime.now(UTC).date()
