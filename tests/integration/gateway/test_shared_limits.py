"""Tokens and places that gateways share, on a real database."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from libs.contracts.errors import RateLimited
from libs.persistence import Database
from services.gateway.adapters.postgres.limits import PostgresSharedLimits
from services.gateway.bootstrap import MIGRATIONS
from services.gateway.use_cases.rates import block_of
from services.gateway.use_cases.stream_slots import StreamSlots
from tests.support.company_limits import usual_limits

_STOP = """
    CREATE SCHEMA stopped_clock;
    CREATE TABLE stopped_clock.moment AS SELECT pg_catalog.now() AS at;
    CREATE FUNCTION stopped_clock.now() RETURNS timestamptz STABLE LANGUAGE sql
        AS 'SELECT at FROM stopped_clock.moment';
    DO $$ BEGIN
        EXECUTE format('ALTER DATABASE %I SET search_path = stopped_clock, public, pg_catalog', current_database());
    END $$
"""


class StoppedDatabaseClock:
    """``now()`` of a database, for connections that are opened after ``stop``.

    So no verdict depends on how long a test takes.
    """

    def __init__(self, database_url: str) -> None:
        self._database_url = database_url

    async def stop(self) -> None:
        await self._execute(_STOP)

    async def advance(self, seconds: float) -> None:
        await self._execute(f"UPDATE stopped_clock.moment SET at = at + interval '{seconds} s'")

    async def _execute(self, statement: str) -> None:
        async with await AsyncConnection.connect(self._database_url, autocommit=True) as connection:
            await connection.execute(statement.encode())


@pytest.fixture
def migrations() -> Path:
    return MIGRATIONS


@pytest.fixture
async def clock(database_url: str) -> StoppedDatabaseClock:
    clock = StoppedDatabaseClock(database_url)
    await clock.stop()
    return clock


@pytest.fixture
async def database(database_url: str, clock: StoppedDatabaseClock) -> AsyncIterator[Database]:
    database = Database(database_url, name="gateway", plan_once=True, timeout=30.0)
    await database.open()
    yield database
    await database.close()


async def test_a_bucket_is_emptied_once_and_refilled_evenly(database: Database, clock: StoppedDatabaseClock) -> None:
    gateways = [PostgresSharedLimits(database, gateway_id=name) for name in "ab"]
    grants = await asyncio.gather(
        *(gateway.take_tokens("acme", "turns_per_minute", 31, 600) for gateway in gateways for _ in range(20))
    )
    assert sorted(grant.granted for grant in grants) == [0] * 20 + [600 % 31] + [31] * 19
    await clock.advance(6)
    assert (await gateways[1].take_tokens("acme", "turns_per_minute", 600, 600)).granted == 60
    assert (await gateways[0].take_tokens("acme", "turns_per_minute", 600, 600)).granted == 0
    assert (await gateways[0].take_tokens("other", "turns_per_minute", 600, 600)).granted == 600


async def test_a_bucket_never_holds_more_than_a_minute(database: Database, clock: StoppedDatabaseClock) -> None:
    gateway = PostgresSharedLimits(database, gateway_id="a")
    assert (await gateway.take_tokens("acme", "turns_per_minute", 100, 60)).granted == 60
    await clock.advance(3600)
    assert (await gateway.take_tokens("acme", "turns_per_minute", 100, 60)).granted == 60


async def test_the_use_of_a_bucket_goes_back_with_time(database: Database, clock: StoppedDatabaseClock) -> None:
    gateway = PostgresSharedLimits(database, gateway_id="a")
    limits = {"turns_per_minute": 60, "requests_per_minute": 600}
    await gateway.take_tokens("acme", "turns_per_minute", 50, 60)
    await gateway.hold_slots("acme", 7, 100)
    assert await gateway.used("acme", limits) == {"turns_per_minute": 50, "requests_per_minute": 0, "streams": 7}
    await clock.advance(20)
    assert await gateway.used("acme", limits) == {"turns_per_minute": 30, "requests_per_minute": 0, "streams": 7}
    await clock.advance(3600)
    assert await gateway.used("acme", limits) == {"turns_per_minute": 0, "requests_per_minute": 0, "streams": 0}
    await gateway.purge()
    assert await database.value("SELECT count(*) FROM rates") == 0


async def test_places_of_gateways_that_ask_at_once_stay_within_the_limit(database: Database) -> None:
    gateways = [
        StreamSlots(PostgresSharedLimits(database, gateway_id=name), usual_limits(streams=100)) for name in "abc"
    ]
    entered = 0
    async with AsyncExitStack() as streams:

        async def enter(slots: StreamSlots) -> None:
            nonlocal entered
            with suppress(RateLimited):
                await streams.enter_async_context(slots.taken("acme"))
                entered += 1

        await asyncio.gather(*(enter(slots) for _ in range(60) for slots in gateways))
        # Two of the three are refused something. All is held then, and who is refused uses all that it holds; the third
        # one may keep a block for the next.
        assert 100 - block_of(100) <= entered <= 100


async def test_places_of_a_gateway_that_died_are_free_again(database: Database, clock: StoppedDatabaseClock) -> None:
    dead, living = (PostgresSharedLimits(database, gateway_id=name) for name in "ab")
    assert (await dead.hold_slots("acme", 100, 100)).held == 100
    assert (await living.hold_slots("acme", 5, 100)).held == 0
    await dead.renew_slots({"acme": 97})
    await clock.advance(29)
    assert (await living.hold_slots("acme", 5, 100)).held == 3
    await clock.advance(1)
    assert (await living.hold_slots("acme", 5, 100)).held == 5
    await clock.advance(121)
    await living.renew_slots({"acme": 5})
    await living.purge()
    assert await database.execute("SELECT gateway_id FROM company_streams") == [("b",)]
