"""Leases for tasks that one process at a time should run, and the renewal of leases."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

import structlog

from libs.contracts.identifiers import new_id
from libs.persistence._database import Database

_log = structlog.get_logger("database")
_TAKE: Final = """
    INSERT INTO task_leases AS l (task, holder, ends_at)
    VALUES (%(task)s, %(holder)s, clock_timestamp() + make_interval(secs => %(seconds)s))
    ON CONFLICT (task) DO UPDATE SET holder = EXCLUDED.holder, ends_at = EXCLUDED.ends_at
    WHERE l.ends_at < clock_timestamp() OR l.holder = EXCLUDED.holder
    RETURNING true
"""
_RELEASE: Final = "UPDATE task_leases SET ends_at = '-infinity' WHERE task = %s AND holder = %s"


class TaskLease:
    """A row of ``task_leases`` that keeps other processes from running the same task.

    A session lock wouldn't work behind a transaction pooler. After a crash, other processes wait until the lease
    expires. A process isn't stopped when its lease ends, so it must be safe for two processes to run the task at once.
    """

    def __init__(self, database: Database, task: str, seconds: float) -> None:
        self._database = database
        self._seconds = seconds
        self._row = {"task": task, "holder": new_id()}

    async def take(self) -> bool:
        """Acquires or renews the lease. Returns whether this process has it."""
        return bool(await self._database.value(_TAKE, {**self._row, "seconds": self._seconds}))

    async def release(self) -> None:
        """Ends the lease if this process has it."""
        await self._database.execute(_RELEASE, (self._row["task"], self._row["holder"]))


@asynccontextmanager
async def renewed_leases(renew: Callable[[], Awaitable[None]], lease_seconds: float) -> AsyncIterator[None]:
    """Renews leases four times per lease period while the block runs. A failed renewal is only logged."""
    ended = asyncio.Event()

    async def keep() -> None:
        while not ended.is_set():
            try:
                async with asyncio.timeout(lease_seconds / 4):
                    await ended.wait()
            except TimeoutError:
                try:
                    await renew()
                except Exception as problem:
                    _log.warning("lease.not_renewed", problem=repr(problem))

    keeping = asyncio.create_task(keep(), name="leases.renew")
    try:
        yield
    finally:
        # A cancellation could interrupt a statement and raise an error.
        ended.set()
        await keeping
