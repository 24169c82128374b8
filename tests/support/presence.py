"""Processes that show that they live, as seen by one whose clock a test moves."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime

import psycopg

from libs.persistence import Presence
from tests.support.waiting import until


class Clock:
    """Stands still until a test moves it: no stall of the machine can be taken for a death."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def present(
    url: str, *, name: str = "test", distrust: float = 60.0, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[Presence]:
    presence = Presence(url, name=name, grace=1.0, distrust=distrust, clock=clock)
    running = asyncio.create_task(presence.run())
    try:
        await until(presence.held.is_set)
        yield presence
    finally:
        running.cancel()
        await asyncio.wait({running})


async def looked(url: str, name: str = "observer") -> None:
    """Waits until the process of that name has looked, from beginning to end, who else lives."""
    asked = """
        SELECT clock_timestamp(), max(query_start) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = %s
    """
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def times() -> tuple[datetime, datetime | None]:
            [row] = await (await connection.execute(asked, (f"aes-{name}-presence",))).fetchall()
            return row

        # A look has ended when the next one begins.
        for _ in range(2):
            now, _last = await times()

            async def has_asked(since: datetime = now) -> bool:
                _, last = await times()
                return last is not None and last > since

            await until(has_asked, pause=0.05)


def end_connections(url: str, number: int) -> int:
    """Ends the connection that holds that lock, as a failover or an administrator does."""
    with psycopg.connect(url) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND granted",
            (number,),
        )
        return len(ended.fetchall())


def is_locked(url: str, number: int) -> bool:
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND granted", (number,)
        )
        return found.fetchone() is not None
