"""A PostgreSQL of the embedded stack, with its roles, apart from the one that other tests use."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest

from deploy.local.foreground import RunningProcess, start
from deploy.local.ports import choose_free
from deploy.local.postgres import Postgres
from deploy.local.processes import MARKER, end_orphans
from tests.support.waiting import WITHIN

PASSWORDS = {"gateway": "g-secret", "runtime": "r-secret"}


@contextmanager
def new_server() -> Iterator[Postgres]:
    """Not in pytest's directory, which each new run of this user's closes to others, PostgreSQL's user among them."""
    with TemporaryDirectory(prefix="aes-test-postgres-") as directory:
        yield server_in(Path(directory))


def server_in(directory: Path) -> Postgres:
    return Postgres(
        directory=directory / "postgres",
        log=directory / "postgres.log",
        port=choose_free(),
        password="a-secret",
        environment={**os.environ, MARKER: str(directory)},
        databases=PASSWORDS,
    )


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with new_server() as server:
        running = asyncio.run(start(server, lambda detail: None))
        yield server
        running.stop()


@pytest.fixture
def doomed() -> Iterator[Postgres]:
    """Not the one that other tests use."""
    with new_server() as server:
        yield server


@pytest.fixture
async def running(doomed: Postgres) -> AsyncIterator[RunningProcess]:
    running = await start(doomed, lambda detail: None)
    yield running
    running.stop()


async def test_a_role_enters_its_own_database_only(server: Postgres) -> None:
    async with await psycopg.AsyncConnection.connect(server.url("gateway")) as connection:
        await connection.execute("CREATE TABLE mine (id int)")
    with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
        await psycopg.AsyncConnection.connect(server.url("runtime", "gateway", PASSWORDS["gateway"]))
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        await psycopg.AsyncConnection.connect(server.url("runtime", "runtime", PASSWORDS["gateway"]))


async def test_a_role_may_use_vectors_in_its_database(server: Postgres) -> None:
    async with await psycopg.AsyncConnection.connect(server.url("runtime")) as connection:
        await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        found = await connection.execute("SELECT '[3,4]'::vector <-> '[0,0]'::vector")
        assert await found.fetchone() == (5.0,)


async def test_letters_beyond_ascii_have_cases(server: Postgres) -> None:
    async with await psycopg.AsyncConnection.connect(server.url("runtime")) as connection:
        found = await connection.execute("SELECT lower('ÄÉ')")
        assert await found.fetchone() == ("äé",)


async def test_committed_rows_survive_a_kill(doomed: Postgres, running: RunningProcess) -> None:
    async with await psycopg.AsyncConnection.connect(doomed.url("runtime")) as connection:
        await connection.execute("CREATE TABLE kept AS SELECT 1 AS id")
    running.process.send_signal(signal.SIGKILL)
    running.process.wait()
    end_orphans(doomed.directory.parent, doomed.directory)
    again = await start(doomed, lambda detail: None)
    try:
        async with await psycopg.AsyncConnection.connect(doomed.url("runtime")) as connection:
            found = await connection.execute("SELECT id FROM kept")
            assert await found.fetchone() == (1,)
    finally:
        again.stop()


async def test_a_server_without_supervisor_is_found_and_ended(doomed: Postgres, running: RunningProcess) -> None:
    assert end_orphans(doomed.directory.parent, doomed.directory) >= 1
    assert running.process.wait(WITHIN) == 0
    assert not await doomed.is_ready()
