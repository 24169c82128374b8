"""Services behind a pooler that lends connections for single transactions: nothing needs a session's state."""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Final

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from deploy.local.ports import choose_free
from libs.eventing import Outbox, Relay, Retention
from libs.persistence import Database, TaskLease, migrate
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from tests.support.command_records import SIGNER
from tests.support.event_owner import PLAIN
from tests.support.fake_producer import FakeProducer
from tests.support.sample_owner import NoteTaken
from tests.support.waiting import until

_SETTINGS: Final = """
[databases]
* = host=127.0.0.1 port={port} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
ignore_startup_parameters = options
default_pool_size = 8
server_round_robin = 1
"""


@pytest.fixture
async def pooled(database_url: str, tmp_path: Path) -> AsyncIterator[str]:
    """The URL of the same database behind a PgBouncer, which lends each transaction another connection if it can.

    Skips the test where there is no PgBouncer.
    """
    program = shutil.which("pgbouncer", path=f"{os.environ['PATH']}:/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer on this machine")
    server = {"port": "5432", "password": "", **conninfo_to_dict(database_url)}
    port = choose_free()
    settings = tmp_path / "pgbouncer.ini"
    settings.write_text(_SETTINGS.format(**server, listen_port=port))
    # It refuses to run as root. Another user may not read the directory of PostgreSQL's socket.
    identity = ("-u", "nobody") if os.geteuid() == 0 else ()
    process = await asyncio.create_subprocess_exec(program, "--quiet", *identity, str(settings))
    pooled = make_conninfo(host="127.0.0.1", port=port, dbname=str(server["dbname"]), user=str(server["user"]))

    async def answers() -> bool:
        try:
            async with await psycopg.AsyncConnection.connect(pooled, connect_timeout=2):
                return True
        except psycopg.OperationalError:
            assert process.returncode is None, "it has ended"
            return False

    try:
        await until(answers, pause=0.1)
        yield pooled
    finally:
        process.terminate()
        await process.wait()


MIGRATIONS = Path(__file__).parents[3] / "services" / "timeline" / "migrations"
TODAY = datetime.now(UTC).date()
LEFT_BEHIND = """
    SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database = (
        SELECT oid FROM pg_database WHERE datname = current_database())
"""


async def opened(url: str) -> Database:
    database = Database(url, name="test", prepare=False, timeout=30.0)
    await database.open()
    return database


async def no_lock_is_left(database_url: str) -> None:
    async with await psycopg.AsyncConnection.connect(database_url) as direct:
        assert await (await direct.execute(LEFT_BEHIND)).fetchall() == [(0,)]


async def test_migrations_wait_for_each_other(database_url: str, pooled: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(migrate, pooled, MIGRATIONS) for _ in range(3)))
    await no_lock_is_left(database_url)
    await asyncio.to_thread(migrate, pooled, MIGRATIONS)


async def test_work_goes_on_and_leaves_no_lock(database_url: str, pooled: str) -> None:
    await asyncio.to_thread(migrate, pooled, MIGRATIONS)
    processes = [await opened(pooled) for _ in range(2)]
    producer = FakeProducer()
    relays = [Relay(database, producer, SIGNER, source="/aes/gateway") for database in processes]
    running = [asyncio.create_task(relay.run()) for relay in relays]
    running += [asyncio.create_task(Retention(rows=10).run(database)) for database in processes]
    try:
        for days in (38, 39, 40):
            await asyncio.gather(*map(emitted, processes, relays))
            async with Outbox(processes[0]).transaction(PLAIN) as transaction:
                transaction.emit(NoteTaken(note_id="left"), subject="left by a crash")
            await asyncio.gather(*(kept(database, TODAY - timedelta(days=days)) for database in processes))
        await until(lambda: len({envelope.id for envelope in producer.envelopes}) == 3 * 101)
        for subject in {envelope.subject for envelope in producer.envelopes}:
            numbers = [envelope.sequence for envelope in producer.envelopes if envelope.subject == subject]
            assert list(dict.fromkeys(numbers)) == sorted(set(numbers)), subject
        oldest = await processes[1].value("SELECT min(relname) FROM pg_class WHERE relname ^@ 'timeline_events_2'")
        assert oldest == f"timeline_events_{TODAY - timedelta(days=1):%Y%m%d}"
        await until(lambda: none_waits(processes[0]))
    finally:
        for task in running:
            task.cancel()
        ended = await asyncio.gather(*running, return_exceptions=True)
        for database in processes:
            await database.close()
    assert all(isinstance(each, asyncio.CancelledError) for each in ended), ended
    await no_lock_is_left(database_url)


async def kept(database: Database, long_ago: date) -> None:
    """Makes partitions of days long ago and drops them."""
    partitions = PostgresTimelinePartitions(database)
    await partitions.make(long_ago)
    await partitions.drop_before(TODAY - timedelta(days=30))
    await partitions.make(TODAY)


async def emitted(database: Database, relay: Relay) -> None:
    """Fifty events of five subjects that both processes have, half of them by way of pipelines."""
    outbox = Outbox(database, relay)
    for number in range(25):
        async with outbox.transaction(PLAIN) as transaction:
            transaction.emit(NoteTaken(note_id="n"), subject=f"s{number % 5}")
        async with outbox.pipelined() as transaction:
            counted = await transaction.connection.execute("SELECT count(*) FROM outbox")
            assert await counted.fetchone()
            transaction.emit(NoteTaken(note_id="n"), subject=f"s{number % 5}", context=PLAIN)


async def none_waits(database: Database) -> bool:
    return bool(await database.value("SELECT NOT EXISTS (SELECT FROM outbox WHERE published_at IS NULL)"))


async def test_a_lease_is_one_processes_until_it_ends_or_is_given_back(pooled: str) -> None:
    await asyncio.to_thread(migrate, pooled, MIGRATIONS)
    first, second = await opened(pooled), await opened(pooled)
    try:
        own, others = TaskLease(first, "task", 60.0), TaskLease(second, "task", 60.0)
        assert [await own.take(), await others.take(), await own.take()] == [True, False, True]
        await others.release()
        assert not await others.take(), "only its holder gives it back"
        await own.release()
        assert [await others.take(), await own.take()] == [True, False]
        await first.execute("UPDATE task_leases SET ends_at = clock_timestamp()")
        assert await own.take()
    finally:
        await first.close()
        await second.close()
