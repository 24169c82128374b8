"""Transactions of one pipeline on a real server."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from libs.contracts.errors import StoreUnavailable
from libs.persistence import Database

LARGE = "x" * 8_000_000
_STATEMENTS_BEFORE_ONE_IS_PREPARED = 5


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """One with a single connection, so that each use gets what the one before has left."""
    database = Database(database_url, name="test", max_size=1, timeout=30.0)
    await database.open()
    await database.execute("CREATE TABLE things (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
    yield database
    await database.close()


async def count(database: Database) -> int:
    return int(await database.value("SELECT count(*) FROM things"))


async def test_results_come_inside_the_block_and_after_it(database: Database) -> None:
    async with database.pipelined() as connection:
        await connection.execute("INSERT INTO things VALUES (1)")
        inside = await connection.execute("SELECT count(*) FROM things")
        assert await inside.fetchall() == [(1,)]
        await connection.execute("INSERT INTO things VALUES (2)")
        after = await connection.execute("SELECT count(*) FROM things")
    assert await after.fetchall() == [(2,)]
    assert await count(database) == 2


async def test_an_error_comes_at_the_latest_with_the_next_result(database: Database) -> None:
    reached = []

    async def fail() -> None:
        async with database.pipelined() as connection:
            await connection.execute("INSERT INTO things VALUES (1)")
            await connection.execute("INSERT INTO nowhere VALUES (1)")
            following = await connection.execute("SELECT 1")
            await following.fetchall()
            reached.append("the end")

    with pytest.raises(psycopg.errors.UndefinedTable):
        await fail()
    assert "the end" not in reached
    assert await count(database) == 0


async def test_an_error_of_the_commit_is_raised(database: Database) -> None:
    async def fail() -> None:
        async with database.pipelined() as connection:
            await connection.execute("INSERT INTO things VALUES (1)")
            await connection.execute("INSERT INTO things VALUES (1)")

    with pytest.raises(psycopg.errors.UniqueViolation):
        await fail()
    assert await count(database) == 0


async def test_a_failure_of_the_block_itself_rolls_back_and_keeps_the_connection(database: Database) -> None:
    before = await database.value("SELECT pg_backend_pid()")

    async def fail() -> None:
        async with database.pipelined() as connection:
            await connection.execute("INSERT INTO things VALUES (1)")
            raise LookupError

    with pytest.raises(LookupError):
        await fail()
    assert await count(database) == 0
    assert await database.value("SELECT pg_backend_pid()") == before


@pytest.mark.parametrize("known", [True, False], ids=["raised", "hidden-by-another-failure"])
async def test_a_statement_behind_one_that_failed_is_not_taken_for_prepared(
    database: Database, database_url: str, known: bool
) -> None:
    await database.execute("ALTER TABLE things ADD CONSTRAINT once EXCLUDE (id WITH =)")

    async def add(number: int) -> list[tuple[int]]:
        async with database.pipelined() as connection:
            await connection.execute("INSERT INTO things VALUES (%s)", (number,))
            looking = await connection.execute("SELECT max(id) FROM things")
        return await looking.fetchall()

    async def add_and_fail_first(number: int) -> None:
        """The table is locked until the block has failed, so that the server's error can only come after that."""
        async with await psycopg.AsyncConnection.connect(database_url) as other:
            await other.execute("LOCK TABLE things")
            unlocking = None
            try:
                async with database.pipelined() as connection:
                    await connection.execute("INSERT INTO things VALUES (%s)", (number,))
                    await connection.execute("SELECT max(id) FROM things")
                    unlocking = asyncio.create_task(other.rollback())
                    raise LookupError
            finally:
                if unlocking:
                    await unlocking

    for number in range(_STATEMENTS_BEFORE_ONE_IS_PREPARED):
        await add(number)
    if known:
        with pytest.raises(psycopg.errors.ExclusionViolation):
            await add(0)
    else:
        with pytest.raises(LookupError):
            await add_and_fail_first(0)
    assert await add(9) == [(9,)]


async def test_more_than_fits_into_buffers_goes_both_ways(database: Database) -> None:
    async with database.pipelined() as connection:
        echoes = [await connection.execute("SELECT %s::text || %s", (LARGE, number)) for number in range(4)]
        for number, echo in enumerate(echoes):
            [(text,)] = await echo.fetchall()
            assert text == f"{LARGE}{number}"
        await connection.execute("SELECT %s::text", (LARGE,))


@pytest.mark.parametrize(
    "behind_its_back", ["DEALLOCATE ALL", "SET default_transaction_read_only = on"], ids=["unprepared", "read only"]
)
async def test_a_connection_that_is_not_as_it_was_is_an_outage_and_replaced(
    database: Database, behind_its_back: str
) -> None:
    async def add(number: int) -> None:
        async with database.pipelined() as connection:
            await connection.execute("INSERT INTO things VALUES (%s)", (number,))

    for number in range(_STATEMENTS_BEFORE_ONE_IS_PREPARED + 1):
        await add(number)
    async with database.connection() as connection:
        # Not through psycopg, which would take notice.
        connection.pgconn.exec_(behind_its_back.encode())
    with pytest.raises(StoreUnavailable):
        await add(10)
    await add(10)
    assert await count(database) == _STATEMENTS_BEFORE_ONE_IS_PREPARED + 2
