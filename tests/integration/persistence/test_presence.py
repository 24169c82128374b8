"""The lock that shows that a process lives: freed when it is killed, taken anew when only its connection was."""

import asyncio
import re
import signal
import sys

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from structlog.testing import capture_logs

from deploy.local.ports import choose_free
from libs.persistence import Presence
from tests.support.presence import Clock, end_connections, is_locked, looked, present
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import never, until

PROCESS = """
import asyncio, sys
from libs.persistence import Presence

async def main():
    presence = Presence(sys.argv[1], name="test")
    print(presence.number, flush=True)
    await presence.run()

asyncio.run(main())
"""


def is_awaited(url: str, number: int) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND NOT granted", (number,)
        )
        return found.fetchone() is not None


async def test_a_killed_process_is_gone(database_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROCESS, database_url, stdout=asyncio.subprocess.PIPE
    )
    number = int(await process.stdout.readline())
    clock = Clock()
    async with present(database_url, name="observer", clock=clock) as presence:
        told = asyncio.Event()
        presence.on_change(told.set)
        await until(lambda: is_locked(database_url, number))
        await looked(database_url)
        # Longer than a lock may be missing.
        clock.now += 60.0
        await never(lambda: presence.gone([number]), during=looked(database_url))
        process.send_signal(signal.SIGKILL)
        await until(lambda: not is_locked(database_url, number))
        await never(told.is_set, during=looked(database_url))
        clock.now += 1.0
        await until(told.is_set)
        assert presence.gone([number, presence.number]) == {number}
    await process.wait()


async def test_a_process_that_only_lost_its_connection_has_its_lock_again(database_url: str) -> None:
    clock = Clock()
    async with present(database_url, name="observer", clock=clock) as observer, present(database_url) as other:
        told: list[str] = []
        observer.on_change(lambda: told.append("observer"))
        other.on_change(lambda: told.append("other"))
        assert observer.gone([other.number]) == set()
        for times in range(1, 4):
            assert end_connections(database_url, other.number) == 1
            await until(lambda wanted=times: told.count("other") == wanted)
            assert other.announced == other.number
            assert is_locked(database_url, other.number)
            # If the lock was missing in a look, then for long enough now.
            clock.now += 60.0
            await never(lambda: observer.gone([other.number]), during=looked(database_url))
        assert "observer" not in told


async def test_whoever_lost_his_own_lock_takes_nobody_for_gone(database_url: str) -> None:
    """As after a failover, when all have lost theirs and some are back sooner than others."""
    clock = Clock()
    async with present(database_url, name="observer", distrust=60.0, clock=clock) as observer:
        async with present(database_url) as other:
            observer.gone([other.number])
            back = asyncio.Event()
            observer.on_change(back.set)
            end_connections(database_url, observer.number)
            await until(back.is_set)
            await looked(database_url)
        await until(lambda: not is_locked(database_url, other.number))
        await looked(database_url)
        clock.now += 59.0
        await never(lambda: observer.gone([other.number]), during=looked(database_url))
        assert observer.announced == observer.number
        clock.now += 1.0
        await until(lambda: observer.gone([other.number]))


async def test_who_cannot_reach_the_database_announces_nothing(database_url: str) -> None:
    given = conninfo_to_dict(database_url)
    proxy = TcpProxy(port=choose_free(), target_port=int(given["port"] or 0))
    url = make_conninfo(database_url, host="127.0.0.1", port=proxy.port)
    async with proxy, present(url) as presence:
        await proxy.cut()
        await until(lambda: presence.announced is None)
        await proxy.restore()
        await until(lambda: presence.announced == presence.number)


async def test_a_lock_that_another_connection_holds_is_not_announced(database_url: str) -> None:
    """So it is when the server has not noticed yet that the connection of before has ended."""
    async with present(database_url) as presence:
        with psycopg.connect(database_url, autocommit=True) as connection:
            class_id = connection.execute(
                "SELECT classid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objid = %s", (presence.number,)
            ).fetchone()
            waiting = asyncio.create_task(
                asyncio.to_thread(connection.execute, "SELECT pg_advisory_lock(%s, %s)", (class_id[0], presence.number))
            )
            # It gets the lock when this process loses it, and before that can take it anew.
            await until(lambda: is_awaited(database_url, presence.number))
            end_connections(database_url, presence.number)
            await waiting
            await until(lambda: presence.announced is None)
            await never(lambda: presence.announced, during=looked(database_url, "test"))
        await until(lambda: presence.announced == presence.number)


class Pooler(TcpProxy):
    """Tells its clients made-up numbers of server processes, as poolers do."""

    def changed(self, data: bytes) -> bytes:
        return re.sub(b"(?<=K\0\0\0\x0c)....", lambda _: b"\0\0\0\x7f", data, flags=re.DOTALL)


async def test_behind_a_pooler_leases_decide_and_the_log_says_so_once(database_url: str) -> None:
    given = conninfo_to_dict(database_url)
    pooler = Pooler(port=choose_free(), target_port=int(given["port"] or 0))
    behind = Presence(make_conninfo(database_url, host="127.0.0.1", port=pooler.port), name="behind")
    with capture_logs() as logged:
        async with pooler:
            await behind.run()
    assert [(line["event"], line["reason"]) for line in logged] == [
        ("presence.not_held", "the database is behind a pooler")
    ]
    assert behind.announced is None
    assert not is_locked(database_url, behind.number), "the lock would stay with a connection that others are lent"
    async with present(database_url, name="observer") as other:
        await looked(database_url)
        assert behind.gone([other.number, 7]) == set()
