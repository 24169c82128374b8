"""Work that is repeated until there is nothing, and when it is woken."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from libs.contracts.errors import StoreUnavailable
from services.artifacts.entrypoints.maintenance import PeriodicWork


class Work:
    """``found``: what each run finds, one after another; afterwards there is nothing."""

    def __init__(self, *found: int | Exception) -> None:
        self.found = list(found)
        self.runs = 0
        self.ran = asyncio.Event()

    async def __call__(self) -> int:
        self.runs += 1
        self.ran.set()
        if not self.found:
            return 0
        found = self.found.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


@asynccontextmanager
async def running(work: Work, seconds: float = 3600.0) -> AsyncIterator[PeriodicWork]:
    periodic = PeriodicWork("test", work, seconds)
    task = asyncio.create_task(periodic.run())
    try:
        async with asyncio.timeout(30):
            yield periodic
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def next_run(work: Work) -> None:
    work.ran.clear()
    await work.ran.wait()


async def test_it_goes_on_until_there_is_nothing_and_when_it_is_woken() -> None:
    work = Work(3, 1)
    async with running(work) as periodic:
        await next_run(work)
        assert (work.runs, work.found) == (3, [])
        work.found = [2]
        periodic.wake()
        await next_run(work)
        assert (work.runs, work.found) == (5, [])


async def test_a_wake_while_it_works_is_not_lost() -> None:
    work = Work()
    async with running(work) as periodic:
        await next_run(work)
        periodic.wake()
        await next_run(work)
        assert work.runs == 2


async def test_it_is_repeated_after_its_seconds_also_when_the_store_was_away() -> None:
    work = Work(StoreUnavailable("the store is away"), 1)
    async with running(work, seconds=0.01):
        await next_run(work)
        assert work.runs == 1
        await next_run(work)
        assert work.found == []
