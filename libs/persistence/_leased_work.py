"""Runs jobs that are claimed with a lease, fairly among companies."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from libs.fairness import Capacity
from libs.persistence._leases import renewed_leases

Job = TypeVar("Job")
# The interval between claims while jobs run.
_CHECK_SECONDS: Final = 0.3


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
