"""Errors of the database tell what was wrong, and nothing of what was written."""

import traceback
from collections.abc import AsyncIterator

import psycopg
import pytest

from libs.persistence import Database

SECRET = "what a user wrote"


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, name="test", timeout=30.0)
    await database.open()
    async with database.connection() as connection:
        await connection.execute(
            "CREATE TABLE texts (id int CONSTRAINT pk_texts PRIMARY KEY, text text CONSTRAINT ck_short"
            " CHECK (length(text) < 5) CONSTRAINT uq_texts UNIQUE, number int NOT NULL DEFAULT 0)"
        )
        await connection.execute("INSERT INTO texts VALUES (1, 'once')")
    yield database
    await database.close()


@pytest.mark.parametrize(
    ("statement", "error", "said"),
    [
        ("INSERT INTO texts VALUES (2, %s)", psycopg.errors.CheckViolation, "ck_short"),
        ("INSERT INTO texts VALUES (1, NULL), (length(%s), '')", psycopg.errors.UniqueViolation, "pk_texts"),
        ("INSERT INTO texts VALUES (2, left(%s, 0), NULL)", psycopg.errors.NotNullViolation, "number"),
        ("SELECT (%s::text)::int", psycopg.errors.InvalidTextRepresentation, "invalid input syntax for type integer"),
        ("SELECT (%s::text)::json", psycopg.errors.InvalidTextRepresentation, "invalid input syntax for type json"),
        ("SELECT (%s::text)::date", psycopg.errors.InvalidDatetimeFormat, "invalid input syntax for type date"),
    ],
)
@pytest.mark.parametrize("pipelined", [False, True])
async def test_errors_quote_no_written_values(
    database: Database, statement: str, error: type[psycopg.Error], said: str, pipelined: bool
) -> None:
    async def run() -> None:
        async with database.transaction() as connection:
            if not pipelined:
                await connection.execute(statement, (SECRET,), prepare=False)
                return
            async with connection.pipeline():
                await connection.execute(statement, (SECRET,))

    with pytest.raises(error) as failure:
        await run()
    told = "".join(traceback.format_exception(failure.value))
    assert said in str(failure.value)
    assert SECRET not in told
    assert "DETAIL" not in told


async def test_neither_does_an_error_that_it_led_to(database: Database) -> None:
    async def run() -> None:
        async with database.transaction() as connection:
            try:
                await connection.execute("INSERT INTO texts VALUES (3, %s)", (SECRET,))
            except psycopg.Error as problem:
                raise RuntimeError("it did not work") from problem

    with pytest.raises(RuntimeError) as failure:
        await run()
    told = "".join(traceback.format_exception(failure.value))
    assert "ck_short" in told
    assert SECRET not in told
