"""The pool on a real server that goes away and comes back."""

import asyncio
import os
import secrets
import socket
import traceback
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import PoolTimeout

from deploy.local.ports import choose_free
from libs.contracts.errors import StoreBusy, StoreUnavailable
from libs.persistence import Database, is_outage
from tests.support.infrastructure import Infrastructure
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import until


@asynccontextmanager
async def opened(url: str, **limits: float) -> AsyncIterator[Database]:
    database = Database(url, name="test", max_size=2, **limits)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    await asyncio.to_thread(_create, database_url)
    async with opened(database_url, timeout=30.0) as database:
        yield database


def _create(url: str) -> None:
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE things (id int PRIMARY KEY)")


async def count(database: Database) -> int:
    async with database.connection() as connection:
        row = await (await connection.execute("SELECT count(*) FROM things")).fetchone()
    return int(row[0])


async def test_a_single_statement_returns_its_rows(database: Database) -> None:
    assert await database.execute("CREATE TABLE single (id integer)") == []
    assert await database.execute("INSERT INTO single VALUES (%s), (%s)", (1, 2)) == []
    found = await database.execute("SELECT id FROM single WHERE id > %(least)s", {"least": 1})
    assert found == [(2,)]


async def test_a_transaction_is_all_or_nothing(database: Database) -> None:
    async with database.transaction() as connection:
        await connection.execute("INSERT INTO things VALUES (1)")

    async def fail() -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO things VALUES (2)")
            await connection.execute("INSERT INTO things VALUES (1)")

    with pytest.raises(psycopg.errors.UniqueViolation):
        await fail()
    assert await count(database) == 1


async def test_a_cancelled_transaction_leaves_nothing_and_gives_its_connection_back(database: Database) -> None:
    async def insert_and_wait() -> None:
        async with database.transaction() as connection:
            await connection.execute("INSERT INTO things VALUES (1)")
            await connection.execute("SELECT pg_sleep(600)")

    waits = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'"
    for _ in range(4):
        task = asyncio.create_task(insert_and_wait())
        await until(lambda: database.value(waits))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await count(database) == 0


@pytest.mark.parametrize("ticks", range(12))
async def test_a_cancellation_that_comes_with_the_connection_is_not_forgotten(database: Database, ticks: int) -> None:
    async def hold() -> None:
        async with database.connection():
            await asyncio.Event().wait()

    async with database.connection():
        async with database.connection():
            waiting = asyncio.create_task(hold())
            while not database.waiting:
                await asyncio.sleep(0)
        for _ in range(ticks):
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting}, timeout=30)
        assert waiting.cancelled()
        assert await count(database) == 0, "its connection was not given back"


@pytest.mark.parametrize("ticks", range(4))
async def test_a_connection_whose_return_is_cancelled_is_not_lost(database: Database, ticks: int) -> None:
    async def hold(until: asyncio.Event) -> None:
        async with database.connection():
            taken.append(until)
            await until.wait()

    taken: list[asyncio.Event] = []
    released, never = asyncio.Event(), asyncio.Event()
    holding = [asyncio.create_task(hold(released)) for _ in range(2)]
    await until(lambda: len(taken) == 2)
    # Those who come to wait in the same moment keep the pool's locks from being free.
    waiting = [asyncio.create_task(hold(never)) for _ in range(3)]
    released.set()
    for _ in range(ticks):
        await asyncio.sleep(0)
    for task in (*holding, *waiting):
        task.cancel()
    await asyncio.wait({*holding, *waiting})
    async with database.connection(), database.connection():
        assert not database.waiting


async def test_a_failure_at_the_end_of_a_cancelled_block_does_not_hide_the_cancellation(database: Database) -> None:
    begun = asyncio.Event()

    async def undo_in_vain() -> None:
        async with database.connection() as connection:
            try:
                begun.set()
                await asyncio.Event().wait()
            finally:
                await connection.close()
                await connection.rollback()

    task = asyncio.create_task(undo_in_vain())
    await begun.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_server_that_vanishes_without_a_word_is_noticed(database_url: str) -> None:
    over_tcp = make_conninfo(database_url, host="127.0.0.1", port=conninfo_to_dict(database_url)["port"] or 5432)
    async with opened(over_tcp) as database, database.connection() as connection:
        with socket.socket(fileno=os.dup(connection.pgconn.socket)) as probe:
            assert probe.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert probe.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 30_000


async def test_an_exhausted_pool_is_an_outage_and_no_deadlock(database: Database) -> None:
    async with database.connection(), database.connection():
        with pytest.raises(PoolTimeout) as full:
            await database.ping()
    assert is_outage(full.value)
    assert await count(database) == 0


async def test_a_statement_that_takes_too_long_ends_and_is_no_outage(database_url: str) -> None:
    async with opened(database_url, timeout=30.0, statement_timeout=0.5) as database:
        async with database.connection() as connection:
            with pytest.raises(psycopg.errors.QueryCanceled) as slow:
                await connection.execute("SELECT pg_sleep(60)")
        assert not is_outage(slow.value)
        await until_answers(database)


async def test_a_closed_server_connection_is_replaced(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(psycopg.OperationalError) as ended:
            await connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert is_outage(ended.value)
    await until_answers(database)


async def test_outages_have_the_names_of_contracts(database: Database) -> None:
    with pytest.raises(StoreUnavailable, match="terminating connection") as ended:
        await database.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    assert isinstance(ended.value.__cause__, psycopg.errors.AdminShutdown)
    await until_answers(database)
    await database.execute("CREATE TABLE held (id integer)")
    async with database.transaction() as connection:
        await connection.execute("LOCK TABLE held")
        with pytest.raises(StoreBusy):
            await database.execute("SELECT FROM held FOR UPDATE NOWAIT")
    with pytest.raises(psycopg.errors.UndefinedTable):
        await database.execute("SELECT FROM nothing")


@pytest.mark.outage("PostgreSQL")
async def test_an_outage_ends_in_errors_and_the_pool_recovers(database_url: str) -> None:
    port = choose_free()
    url = make_conninfo(database_url, host="127.0.0.1", port=port)
    target = int(conninfo_to_dict(database_url)["port"] or 5432)
    async with TcpProxy(port=port, target_port=target) as proxy, opened(url, timeout=0.5) as database:
        await until_answers(database)
        await proxy.cut()
        for _ in range(5):
            with pytest.raises((psycopg.Error, PoolTimeout)) as lost:
                await database.ping()
            assert is_outage(lost.value)
        # By now the pool has given up trying by itself.
        await proxy.restore()
        await until_answers(database)


async def until_answers(database: Database) -> None:
    async def answers() -> bool:
        try:
            await database.ping()
        except (psycopg.OperationalError, PoolTimeout):
            return False
        return True

    await until(answers, pause=0.05)


@pytest.mark.parametrize(("plan_once", "kept_plans"), [(True, 10), (False, 5)])
async def test_plans_are_kept_from_the_first_use_only_where_asked_for(
    database_url: str, plan_once: bool, kept_plans: int
) -> None:
    _create(database_url)
    database = Database(database_url, name="test", max_size=1, plan_once=plan_once)
    await database.open()
    async with database.connection() as connection:
        for number in range(10):
            await connection.execute("SELECT id FROM things WHERE id = %s", (number,), prepare=True)
        row = await (
            await connection.execute("SELECT generic_plans FROM pg_prepared_statements WHERE statement LIKE '%things%'")
        ).fetchone()
        compiled = await (await connection.execute("SELECT current_setting('jit')")).fetchone()
    await database.close()
    assert row == (kept_plans,)
    assert not plan_once or compiled == ("off",)


SECRET = "what a user wrote"


@pytest.fixture
async def texts(database: Database) -> Database:
    async with database.connection() as connection:
        await connection.execute(
            "CREATE TABLE texts (id int CONSTRAINT pk_texts PRIMARY KEY, text text CONSTRAINT ck_short"
            " CHECK (length(text) < 5) CONSTRAINT uq_texts UNIQUE, number int NOT NULL DEFAULT 0)"
        )
        await connection.execute("INSERT INTO texts VALUES (1, 'once')")
    return database


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
    texts: Database, statement: str, error: type[psycopg.Error], said: str, pipelined: bool
) -> None:
    async def run() -> None:
        async with texts.transaction() as connection:
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


async def test_neither_does_an_error_that_it_led_to(texts: Database) -> None:
    async def run() -> None:
        async with texts.transaction() as connection:
            try:
                await connection.execute("INSERT INTO texts VALUES (3, %s)", (SECRET,))
            except psycopg.Error as problem:
                raise RuntimeError("it did not work") from problem

    with pytest.raises(RuntimeError) as failure:
        await run()
    told = "".join(traceback.format_exception(failure.value))
    assert "ck_short" in told
    assert SECRET not in told


@pytest.fixture
async def roles(infrastructure: Infrastructure, database_url: str) -> AsyncIterator[tuple[str, str]]:
    """URLs of the database as the role that owns it and as the second one."""
    name = f"owner_{secrets.token_hex(4)}"
    first, second = sql.Identifier(name), sql.Identifier(f"{name}_b")
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as administrator:
        database = sql.Identifier(administrator.info.dbname)
        for statement in (
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'one'").format(first),
            sql.SQL("ALTER DATABASE {} OWNER TO {}").format(database, first),
            sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(database),
            sql.SQL("ALTER SCHEMA public OWNER TO {}").format(first),
            sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'two' IN ROLE {}").format(second, first),
            sql.SQL("ALTER ROLE {} SET role = {}").format(second, first),
        ):
            await administrator.execute(statement)
        yield (
            make_conninfo(database_url, user=name, password="one"),
            make_conninfo(database_url, user=f"{name}_b", password="two"),
        )
        await administrator.execute(sql.SQL("REASSIGN OWNED BY {} TO CURRENT_USER").format(first))
        for role in (second, first):
            await administrator.execute(sql.SQL("DROP OWNED BY {}").format(role))
            await administrator.execute(sql.SQL("DROP ROLE {}").format(role))


async def test_objects_that_the_second_role_creates_belong_to_the_first(roles: tuple[str, str]) -> None:
    old, new = (Database(url, name="test", timeout=30.0) for url in roles)
    await old.open()
    await new.open()
    async with old.connection() as connection:
        await connection.execute("CREATE TABLE before (number int)")
    async with new.connection() as connection:
        await connection.execute("ALTER TABLE before ADD COLUMN word text")
        await connection.execute("CREATE TABLE after (number int)")
    async with old.connection() as connection:
        await connection.execute("ALTER TABLE after ADD COLUMN word text")
        rows = await (
            await connection.execute("SELECT DISTINCT tableowner FROM pg_tables WHERE schemaname = 'public'")
        ).fetchall()
        (user,) = await (await connection.execute("SELECT current_user")).fetchone() or ("",)
    assert [row[0] for row in rows] == [user]
    await new.close()
    await old.close()
