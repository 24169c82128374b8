"""Kafka and PostgreSQL of an embedded stack."""

import asyncio
import os
import signal
import stat
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import psycopg
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError

from deploy.local.foreground import RunningProcess, start
from deploy.local.home import Home
from deploy.local.kafka import Kafka, create_topics
from deploy.local.ports import choose_free
from deploy.local.postgres import Postgres
from deploy.local.processes import MARKER, end_orphans
from libs.contracts.topics import TOPICS
from libs.eventing import KafkaConnection, KafkaSettings
from tests.support import containers
from tests.support.infrastructure import Infrastructure
from tests.support.waiting import WITHIN


async def test_a_database_is_empty_and_knows_vectors(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        tables = await connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'public'")
        assert await tables.fetchone() == (0,)
        await connection.execute("CREATE EXTENSION vector")
        distance = await connection.execute("SELECT '[1,2]'::vector <-> '[4,6]'::vector")
        assert await distance.fetchone() == (5.0,)


async def test_a_dropped_database_is_gone(infrastructure: Infrastructure) -> None:
    url = await infrastructure.create_database("test_short_lived")
    await infrastructure.drop_database("test_short_lived")
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        await psycopg.AsyncConnection.connect(url)


async def test_the_broker_answers(kafka: str) -> None:
    port = int(kafka.rpartition(":")[2])
    assert await _asking(port).is_ready()


def test_the_servers_of_a_run_are_embedded_or_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, are_containers in (("containers", True), ("embedded", False)):
        monkeypatch.setenv("AES_TEST_INFRA", value)
        assert containers.wanted() is are_containers
    monkeypatch.setenv("AES_TEST_INFRA", "docker")
    with pytest.raises(ValueError, match="AES_TEST_INFRA"):
        containers.wanted()


def test_containers_have_the_images_of_the_compose_file() -> None:
    assert {"kafka", "postgres", "weaviate", "objects"} <= containers.images().keys()


def test_a_kafka_in_a_directory_of_any_name_lets_nobody_in_without_its_password(tmp_path: Path) -> None:
    """Java writes names of files in its locale, properties in Latin-1, and separates lists by commas and colons."""
    directory = tmp_path / "Ordner, 😀: é"
    directory.mkdir()
    with ThreadPoolExecutor(1) as outside_of_any_loop:
        outside_of_any_loop.submit(lambda: asyncio.run(_with_and_without_password(directory))).result()
    assert (directory / "kafka" / "data" / "meta.properties").exists()


async def _with_and_without_password(directory: Path) -> None:
    home = Home.from_environment()
    home.create()
    (directory / "cache").symlink_to(home.cache)
    port = choose_free()
    kafka = Kafka(
        directory / "kafka",
        directory / "log",
        directory / "cache",
        port=port,
        controller_port=choose_free({port}),
        environment={**os.environ, "LC_ALL": "C"},
        password="secret",
    )
    running = await start(kafka, lambda _: None)
    try:
        await create_topics(kafka, "")
        inside = KafkaSettings.model_validate(kafka.settings).kafka()
        assert await _topics(inside) >= {topic.name for topic in TOPICS}
        for outside in (KafkaConnection(servers=inside.servers), replace(inside, password="guessed")):
            with pytest.raises(KafkaError):
                await _topics(outside)
        controller = f"127.0.0.1:{kafka.controller_port}"
        with pytest.raises(KafkaError):
            await _topics(KafkaConnection(servers=controller))
        assert stat.S_IMODE((kafka.directory / "server.properties").stat().st_mode) == 0o600
    finally:
        running.stop()


async def _topics(connection: KafkaConnection) -> set[str]:
    admin = AIOKafkaAdminClient(**connection.options())
    try:
        await admin.start()
        return set(await admin.list_topics())
    finally:
        await admin.close()


async def test_nobody_listening_is_not_ready() -> None:
    assert not await _asking(1).is_ready()


def _asking(port: int) -> Kafka:
    nowhere = Path("/nonexistent")
    return Kafka(nowhere, nowhere, nowhere, port=port, controller_port=0, environment={})


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
