"""Statements of a pipeline on a real server."""

from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from libs.persistence import Connection, Database, pipeline

LARGE = "x" * 8_000_000


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[Connection]:
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    async with database.connection() as connection:
        await connection.execute("CREATE TABLE things (id integer PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
        yield connection
    await database.close()


def state(url: str, connection: Connection) -> str:
    with psycopg.connect(url) as observer:
        row = observer.execute(
            "SELECT state FROM pg_stat_activity WHERE pid = %s", (connection.info.backend_pid,)
        ).fetchone()
    assert row is not None
    return str(row[0])


async def test_nothing_is_sent_before_a_result_is_needed(connection: Connection, database_url: str) -> None:
    async with pipeline(connection) as statements:
        statements.command(b"BEGIN")
        await connection.execute("INSERT INTO things VALUES (1)")
        assert state(database_url, connection) == "idle"
        counted = await connection.execute("SELECT count(*) FROM things")
        assert await counted.fetchall() == [(1,)]
        assert state(database_url, connection) == "active"
        await connection.execute("INSERT INTO things VALUES (2)")
        statements.command(b"COMMIT")
    counted = await connection.execute("SELECT count(*) FROM things")
    assert await counted.fetchall() == [(2,)]


async def test_an_error_comes_with_the_next_result(connection: Connection) -> None:
    async def fail() -> None:
        async with pipeline(connection) as statements:
            statements.command(b"BEGIN")
            await connection.execute("INSERT INTO nowhere VALUES (1)")
            following = await connection.execute("SELECT 1")
            await following.fetchall()

    with pytest.raises(psycopg.errors.UndefinedTable):
        await fail()
    await connection.rollback()
    assert await (await connection.execute("SELECT count(*) FROM things")).fetchall() == [(0,)]


async def test_an_error_of_the_end_is_raised(connection: Connection) -> None:
    async def fail() -> None:
        async with pipeline(connection) as statements:
            statements.command(b"BEGIN")
            await connection.execute("INSERT INTO things VALUES (1)")
            await connection.execute("INSERT INTO things VALUES (1)")
            statements.command(b"COMMIT")

    with pytest.raises(psycopg.errors.UniqueViolation):
        await fail()
    await connection.rollback()
    assert await (await connection.execute("SELECT count(*) FROM things")).fetchall() == [(0,)]


async def test_a_statement_behind_one_that_failed_is_not_taken_for_prepared(connection: Connection) -> None:
    async def look(before: str) -> list[Any]:
        async with pipeline(connection):
            await connection.execute(before)
            looking = await connection.execute("SELECT id FROM things")
            return await looking.fetchall()

    for _ in range(connection.prepare_threshold or 0):
        await look("SELECT 1")
    # Autocommit: no rollback follows, and the connection goes back to its pool as it is.
    with pytest.raises(psycopg.errors.UndefinedTable):
        await look("SELECT 1 FROM nowhere")
    assert await look("SELECT 1") == []


async def test_more_than_fits_into_buffers_goes_both_ways(connection: Connection) -> None:
    async with pipeline(connection):
        echoes = [await connection.execute("SELECT %s::text || %s", (LARGE, number)) for number in range(4)]
        for number, echo in enumerate(echoes):
            [(text,)] = await echo.fetchall()
            assert text == f"{LARGE}{number}"
        await connection.execute("SELECT %s::text", (LARGE,))
