"""Generated sessions are what the services read: lists, histories and the timeline find them."""

import secrets
from collections.abc import AsyncIterator

import psycopg
import pytest_asyncio

from benchmarks.grown_rows import EVENTS_OF_A_TURN, TURNS_OF_A_SESSION, Stores
from libs.contracts.identity import Identity, Scope
from libs.persistence import Database
from services.gateway.bootstrap import MIGRATIONS as GATEWAY
from services.runtime.adapters.postgres.session_reads import PostgresSessionReads
from services.runtime.bootstrap import MIGRATIONS as RUNTIME
from tests.support.infrastructure import Infrastructure


@pytest_asyncio.fixture
async def stores(infrastructure: Infrastructure) -> AsyncIterator[Stores]:
    names = [f"test_{secrets.token_hex(6)}" for _ in range(2)]
    urls = [
        await infrastructure.create_migrated(name, migrations)
        for name, migrations in zip(names, (RUNTIME, GATEWAY), strict=True)
    ]
    yield Stores(*urls)
    for name in names:
        await infrastructure.drop_database(name)


async def test_generated_sessions_are_found(stores: Stores) -> None:
    empty = stores.bytes()
    stores.add("company", "owner", 1, 2)
    stores.add("company", "owner", 3, 3)
    stores.settle()

    assert stores.bytes() > empty
    with psycopg.connect(stores.gateway) as connection:
        found = connection.execute("SELECT count(*), min(position), max(position) FROM timeline_events").fetchone()
    events = 3 * TURNS_OF_A_SESSION * EVENTS_OF_A_TURN
    assert found == (events, 1, events)
    database = Database(stores.runtime, name="test")
    await database.open()
    try:
        caller = Identity(company_id="company", user_id="owner", key_id="k", scopes=frozenset({Scope.SESSIONS_READ}))
        session = await PostgresSessionReads(database).session("grown-s3", caller)
    finally:
        await database.close()
    assert session is not None
