"""A service's start and stop, and one that is killed with commands in its hands."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import aiohttp
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.local.ports import choose_free
from libs.contracts.messages import CommandContext
from libs.eventing import CommandSender, Transaction
from libs.persistence import Database, migrate
from libs.service_defaults import Service
from libs.service_defaults.service import BEHIND
from tests.integration.eventing.conftest import SIGNING_KEY, Installation, caller, installed, serving, until_ready
from tests.integration.eventing.test_sample_owner import take_note
from tests.support import sample_owner
from tests.support.command_records import command_record
from tests.support.metrics import metric
from tests.support.sample_owner import NoteTaken, TakeNote
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]


@pytest.fixture
async def installation(kafka: str, topic_prefix: str, database_url: str) -> Installation:
    return await installed(kafka, topic_prefix, database_url)


@pytest.fixture
async def sender(installation: Installation) -> AsyncIterator[CommandSender]:
    async with caller(installation) as sender:
        yield sender


async def ready(service: Service) -> bool:
    return all(outcome == "ok" for outcome in (await service.readiness.results()).values())


async def status(port: int, path: str = "/health/ready") -> int:
    async with aiohttp.ClientSession() as session, session.get(f"http://127.0.0.1:{port}{path}") as response:
        return response.status


async def test_ready_from_the_first_assignment_to_the_stop(installation: Installation) -> None:
    service = installation.owner()
    hook_may_end = asyncio.Event()
    service.on_stop(hook_may_end.wait)
    assert not await ready(service)
    running = asyncio.create_task(service.run())
    await until_ready(service)
    assert service.readiness._checks.keys() >= {"started", "database", "consumer notes-commands"}
    assert await status(installation.port) == 200
    assert await status(installation.port, "/health/live") == 200
    assert await status(installation.port, "/metrics") == 200

    service.stop()
    await until(lambda: service.lifecycle.stopping.is_set())
    assert await status(installation.port) == 503
    hook_may_end.set()
    await running


async def test_a_stop_does_not_wait_for_a_start_that_never_ends(installation: Installation) -> None:
    service = installation.owner()
    waiting = asyncio.Event()

    async def never() -> None:
        waiting.set()
        await asyncio.Event().wait()

    service.on_start(never)
    running = asyncio.create_task(service.run())
    async with asyncio.timeout(60):
        await waiting.wait()
        service.stop()
        await running
    assert not service.lifecycle.started


@pytest.mark.rule(20)
async def test_a_consumer_that_has_not_joined_keeps_the_service_unready(installation: Installation) -> None:
    service = Installation("127.0.0.1:9", installation.prefix, installation.database_url, installation.port).owner()
    running = asyncio.create_task(service.run())
    await until(lambda: service.lifecycle.started)

    async def database_answers() -> bool:
        return (await service.readiness.results())["database"] == "ok"

    await until(database_answers)
    assert (await service.readiness.results())["consumer notes-commands"] == "not yet"
    assert await status(installation.port) == 503
    service.stop()
    await running


async def test_dead_letters_lag_and_outbox_are_among_the_metrics(
    installation: Installation, sender: CommandSender
) -> None:
    service = installation.owner()
    service.count_waiting(lambda: 3)
    running = asyncio.create_task(service.run())
    await until_ready(service)
    letters = {"consumer": "notes", "topic": "notes-commands"}
    before = metric("aes_dead_letters_total", **letters)
    no_lag = 'aes_consumer_lag_messages{group="notes-commands",topic="notes-commands"} 0.0'
    broken = command_record(TakeNote(note_id="n", text="t"), value=b"not a note")
    await (await sender._producer.send(broken.topic, broken.key, broken.value, broken.headers))
    async with aiohttp.ClientSession() as session:

        async def counted() -> str:
            async with session.get(f"http://127.0.0.1:{installation.port}/metrics") as response:
                metrics = await response.text()
            return metrics if metric("aes_dead_letters_total", **letters) == before + 1 and no_lag in metrics else ""

        metrics = await until(counted, pause=0.1)
    assert 'aes_outbox_behind_subjects{service="notes"} 0.0' in metrics
    assert 'aes_outbox_waiting_events{service="notes"} ' in metrics
    assert 'aes_outbox_oldest_seconds{service="notes"} ' in metrics
    assert 'aes_database_waiting_requests{service="notes"} 3.0' in metrics
    assert "/health/" not in metrics
    service.stop()
    await running


class _AwayDatabase:
    """A port where connections end as soon as they have begun."""

    def __init__(self) -> None:
        self.port = choose_free()
        self.refused = 0

    def of(self, installation: Installation) -> Installation:
        behind = make_conninfo(installation.database_url, host="127.0.0.1", port=self.port)
        return replace(installation, database_url=behind)

    async def __aenter__(self) -> "_AwayDatabase":
        self._server = await asyncio.start_server(self._refuse, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _refuse(self, _: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.refused += 1
        writer.close()


async def test_the_start_waits_for_the_database(installation: Installation) -> None:
    target = int(conninfo_to_dict(installation.database_url)["port"] or 5432)
    away = _AwayDatabase()
    async with away:
        service = away.of(installation).owner()
        running = asyncio.create_task(service.run())
        await until(lambda: away.refused >= 2)
        assert not running.done()
        assert await status(installation.port, "/health/live") == 200
        assert await status(installation.port, "/internal/commands/any") == 401
        assert await status(installation.port) == 503
    async with TcpProxy(port=away.port, target_port=target):
        await until_ready(service)
        service.stop()
        await running


async def test_a_stop_ends_the_wait_for_the_database(installation: Installation) -> None:
    hooked: list[str] = []

    async def hook() -> None:
        hooked.append("started")

    async with _AwayDatabase() as away:
        service = away.of(installation).owner()
        service.on_start(hook)
        running = asyncio.create_task(service.run())
        await until(lambda: away.refused >= 1)
        service.stop()
        async with asyncio.timeout(60):
            await running
    assert hooked == []


async def test_a_stop_lets_work_end_and_publishes_it(installation: Installation, sender: CommandSender) -> None:
    service = installation.owner()
    begun, finish = asyncio.Event(), asyncio.Event()
    hooked: list[bool] = []

    async def slow(transaction: Transaction, command: TakeNote, context: CommandContext) -> None:
        begun.set()
        await finish.wait()
        await sample_owner.take_note(transaction, command, context)

    service.commands.handle(TakeNote, slow)

    async def fail() -> None:
        hooked.append(finish.is_set())
        raise RuntimeError("a hook that fails must not keep the rest from stopping")

    service.on_stop(fail)
    running = asyncio.create_task(service.run())
    await until_ready(service)
    outcome = asyncio.create_task(take_note(sender, "slow"))
    await begun.wait()
    service.stop()
    assert await status(installation.port) == 503
    finish.set()
    await running
    assert (await outcome).envelope.type == NoteTaken.TYPE
    assert hooked == [True], "hooks run when the work has ended"


async def test_a_background_task_that_fails_is_started_again(installation: Installation) -> None:
    service = installation.owner()
    starts: list[int] = []

    async def fragile() -> None:
        starts.append(1)
        raise RuntimeError

    service.background("fragile", fragile)
    service.background("elsewhere", fragile, role="api")
    running = asyncio.create_task(service.run(frozenset({"worker"})))
    await until(lambda: len(starts) >= 2)
    service.stop()
    await running


@pytest.mark.parametrize("migrations", [None])
async def test_the_start_waits_for_the_migrations(
    installation: Installation, migrations: None, capsys: pytest.CaptureFixture[str]
) -> None:
    service = installation.owner(auto_migrate=False)
    begun = asyncio.Event()

    async def begin() -> None:
        begun.set()

    service.on_start(begin)
    running = asyncio.create_task(service.run())

    async def is_behind() -> bool:
        return (await service.readiness.results())["database"] == BEHIND

    await until(is_behind)
    assert await status(installation.port) == 503
    assert not begun.is_set()

    await asyncio.to_thread(migrate, installation.database_url, service.migrations)
    await until_ready(service)
    assert await status(installation.port) == 200
    service.stop()
    await running
    log = capsys.readouterr()
    assert (log.out + log.err).count("database.behind") == 1


async def test_a_release_that_is_older_than_its_database_starts(installation: Installation) -> None:
    service = installation.owner(auto_migrate=False)
    await asyncio.to_thread(migrate, installation.database_url, service.migrations)
    async with await psycopg.AsyncConnection.connect(installation.database_url) as connection:
        await connection.execute("UPDATE alembic_version SET version_num = '0917'")
    running = asyncio.create_task(service.run())
    await until_ready(service)
    service.stop()
    await running


async def test_a_port_that_is_taken_ends_the_service(installation: Installation) -> None:
    async with serving(installation.owner()):
        with pytest.raises(SystemExit, match=str(installation.port)):
            await installation.owner().run()


async def test_a_signal_ends_the_process_gracefully(installation: Installation) -> None:
    code = "from libs.service_defaults import serve; from tests.support.sample_owner import NotesSettings, build;"
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        code + " serve('notes', NotesSettings, build)",
        "all",
        cwd=ROOT,
        env={
            **os.environ,
            "AES_KAFKA_BOOTSTRAP_SERVERS": installation.kafka,
            "AES_TOPIC_PREFIX": installation.prefix,
            "AES_SIGNING_KEY": SIGNING_KEY,
            "AES_AUTO_MIGRATE": "1",
            "AES_NOTES_DATABASE_URL": installation.database_url,
            "AES_NOTES_PORT": str(installation.port),
        },
        stderr=asyncio.subprocess.PIPE,
    )

    async def answers() -> bool:
        try:
            return await status(installation.port) == 200
        except aiohttp.ClientError:
            return False

    await until(answers, pause=0.1)
    process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(60):
        _, log = await process.communicate()
    assert process.returncode == 0
    assert b'"event": "service.stopped"' in log
    assert b"Traceback" not in log
    assert SIGNING_KEY.encode() not in log


IN_WORK = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND state LIKE 'idle in transaction%%'
"""


@pytest.fixture
async def doomed(installation: Installation) -> AsyncIterator[Process]:
    """An owner in a process of its own that takes commands and never ends one."""
    environment = os.environ | {
        "AES_SIGNING_KEY": SIGNING_KEY,
        "AES_KAFKA_BOOTSTRAP_SERVERS": installation.kafka,
        "AES_TOPIC_PREFIX": installation.prefix,
        "AES_NOTES_DATABASE_URL": installation.database_url,
        "AES_NOTES_PORT": str(installation.port),
        "AES_AUTO_MIGRATE": "true",
    }
    command = sys.executable, "-m", "tests.integration.eventing.stuck_owner"
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    yield process
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.mark.rule(2)
async def test_commands_of_a_process_that_is_killed_are_carried_out_once_by_another(
    doomed: Process, installation: Installation, sender: CommandSender
) -> None:
    waiting = [
        asyncio.create_task(take_note(sender, f"note {number}", note_id=f"note-{number}")) for number in range(10)
    ]
    database = Database(installation.database_url, name="test", timeout=30.0)
    await database.open()
    await until(lambda: database.value(IN_WORK))
    doomed.kill()
    await doomed.wait()
    async with serving(installation.owner()):
        outcomes = await asyncio.gather(*waiting)
    assert {outcome.envelope.type for outcome in outcomes} == {NoteTaken.TYPE}
    notes = [(f"note-{number}", f"note {number}") for number in range(10)]
    assert await database.execute("SELECT id, text FROM notes ORDER BY id") == notes
    await database.close()
