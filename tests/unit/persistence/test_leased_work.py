"""Leases of tasks and of their work."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

import pytest

from libs.fairness import Capacity
from libs.persistence import LeasedWork, renewed_leases
from tests.support.waiting import elapse

pytestmark = pytest.mark.virtual_time
Job = tuple[str, float]


@dataclass
class Queue:
    """Jobs of companies, each with the seconds that it takes."""

    waiting: list[Job]
    ended: dict[str, list[float]] = field(default_factory=dict)
    renewed: list[int] = field(default_factory=list)
    most: dict[str, int] = field(default_factory=dict)
    running: list[str] = field(default_factory=list)
    problem: Exception | None = None

    async def claim(self, capacity: Capacity) -> Sequence[Job]:
        if self.problem:
            raise self.problem
        taken: list[Job] = []
        busy = dict(capacity.busy)
        for job in list(self.waiting):
            if len(taken) < capacity.free and busy.get(job[0], 0) < capacity.each:
                busy[job[0]] = busy.get(job[0], 0) + 1
                taken.append(job)
                self.waiting.remove(job)
        return taken

    async def renew(self, jobs: Collection[Job]) -> None:
        self.renewed.append(len(jobs))

    async def process(self, job: Job) -> None:
        company, seconds = job
        self.running.append(company)
        self.most[company] = max(self.most.get(company, 0), self.running.count(company))
        await elapse(seconds)
        self.running.remove(company)
        self.ended.setdefault(company, []).append(asyncio.get_running_loop().time())

    def work(self, each: int = 2) -> LeasedWork[Job]:
        return LeasedWork(
            claim=self.claim, renew=self.renew, process=self.process, company_of=lambda job: job[0], each=each,
            lease_seconds=20.0,
        )  # fmt: skip


async def test_everything_that_waits_is_done() -> None:
    queue = Queue([("busy", 10.0)] * 5)

    assert await queue.work()() == 5
    assert (queue.waiting, len(queue.ended["busy"]), queue.most) == ([], 5, {"busy": 2})


async def test_a_companys_long_jobs_keep_a_place_free_for_another() -> None:
    queue = Queue([("busy", 3600.0)] * 100)
    begun = asyncio.get_running_loop().time()
    working = asyncio.create_task(queue.work()())
    await elapse(100)
    queue.waiting.append(("other", 1.0))
    await elapse(5)

    assert [ended - begun < 102 for ended in queue.ended["other"]] == [True]
    assert queue.most["busy"] == 2
    working.cancel()


async def test_short_jobs_do_not_wait_for_a_long_one() -> None:
    queue = Queue([("busy", 3600.0), ("busy", 1.0), ("busy", 1.0)])
    working = asyncio.create_task(queue.work()())
    await elapse(10)

    assert (len(queue.ended["busy"]), len(queue.running)) == (2, 1)
    working.cancel()


async def test_leases_are_renewed_for_what_runs() -> None:
    queue = Queue([("busy", 18.0), ("busy", 8.0)])

    await queue.work()()

    assert queue.renewed == [2, 1, 1]


async def test_an_outage_of_the_queue_ends_the_work_when_what_runs_is_done() -> None:
    queue = Queue([("busy", 30.0)])
    working = asyncio.create_task(queue.work()())
    await elapse(1)
    queue.problem = ConnectionError("away")

    with pytest.raises(ConnectionError):
        await working
    assert len(queue.ended["busy"]) == 1


async def test_leases_are_renewed_while_the_block_runs() -> None:
    renewals = 0

    async def renew() -> None:
        nonlocal renewals
        renewals += 1

    async with renewed_leases(renew, 40):
        await elapse(39)
        assert renewals == 3
    await elapse(60)
    assert renewals == 3


async def test_a_failed_renewal_is_followed_by_others() -> None:
    attempts = 0

    async def renew() -> None:
        nonlocal attempts
        attempts += 1
        raise ConnectionError("away")

    async with renewed_leases(renew, 40):
        await elapse(39)
    assert attempts == 3


async def test_a_renewal_in_work_is_waited_for() -> None:
    begun, ended = asyncio.Event(), False

    async def renew() -> None:
        nonlocal ended
        begun.set()
        await elapse(5)
        ended = True

    async with renewed_leases(renew, 40):
        await begun.wait()
    assert ended
