"""Leases for tasks that one process at a time should run, and jobs that are claimed with a lease."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import structlog

from libs.contracts.identifiers import new_id
from libs.fairness import Capacity
from libs.persistence._database import Database

Job = TypeVar("Job")
_log = structlog.get_logger("database")
# The interval between claims while jobs run.
_CHECK_SECONDS: Final = 0.3
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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedWork(Generic[Job]):
    """Runs up to ``each + 1`` jobs concurrently, but at most ``each`` jobs of the same company.

    ``process`` must not raise errors.
    """

    claim: Callable[[Capacity], Awaitable[Sequence[Job]]]
    renew: Callable[[Collection[Job]], Awaitable[None]]
    process: Callable[[Job], Coroutine[Any, Any, None]]
    company_of: Callable[[Job], str]
    each: int
    lease_seconds: float

    async def __call__(self) -> int:
        """Claims and runs jobs until none are waiting. Returns the number of jobs claimed.

        If ``claim`` fails, its error is raised once the running jobs have ended.
        """
        running: dict[asyncio.Task[None], Job] = {}
        count = 0

        async def renew() -> None:
            if running:
                await self.renew(list(running.values()))

        async with renewed_leases(renew, self.lease_seconds):
            try:
                while True:
                    if free := self.each + 1 - len(running):
                        busy = Counter(map(self.company_of, running.values()))
                        for job in await self.claim(Capacity(free, self.each, busy)):
                            running[asyncio.create_task(self.process(job))] = job
                            count += 1
                    if not running:
                        return count
                    pause = _CHECK_SECONDS if len(running) <= self.each else None
                    done, _ = await asyncio.wait(running, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                    for task in done:
                        del running[task]
                        task.result()
            except Exception:
                if running:
                    await asyncio.wait(running)
                raise
            finally:
                for task in running:
                    task.cancel()
                await asyncio.gather(*running, return_exceptions=True)
