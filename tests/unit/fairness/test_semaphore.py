"""Companies take turns: permits and items."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from libs.fairness import FairQueue, FairSemaphore, QueueFull


class Callers:
    """Calls that keep their permit until they are ended."""

    def __init__(self, permits: int = 2, waiting: int | None = 8, each: int = 1, spare: int | None = None) -> None:
        self.semaphore = FairSemaphore(permits, waiting=waiting, each=each, spare=spare)
        self.inside: list[str] = []
        self.calls: dict[str, asyncio.Task[None]] = {}
        self._ends: dict[str, asyncio.Event] = {}

    async def arrive(self, *names: str) -> None:
        """The first letter of a name is the company."""
        for name in names:
            self._ends[name] = asyncio.Event()
            self.calls[name] = asyncio.create_task(self._stay(name))
            await settled()

    async def end(self, name: str) -> None:
        self._ends[name].set()
        await settled()

    async def _stay(self, name: str) -> None:
        async with self.semaphore.acquire(name[0]):
            self.inside.append(name)
            await self._ends[name].wait()
            self.inside.remove(name)


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_company_with_many_calls_leaves_a_permit_to_others() -> None:
    callers = Callers()
    await callers.arrive("a1", "a2", "a3", "b1")
    assert callers.inside == ["a1", "b1"]


async def test_queues_are_served_round_robin() -> None:
    callers = Callers(permits=1)
    await callers.arrive("a1", "a2", "a3", "b1", "c1", "b2")
    order = []
    while callers.inside:
        order += callers.inside
        await callers.end(callers.inside[0])
    assert order == ["a1", "a2", "b1", "c1", "a3", "b2"]


async def test_a_full_queue_refuses_its_own_company_only() -> None:
    callers = Callers(waiting=1)
    await callers.arrive("a1", "a2", "a3", "b1")
    with pytest.raises(QueueFull, match="maximum number of calls: 1"):
        await callers.calls["a3"]
    await callers.end("a1")
    assert callers.inside == ["b1", "a2"]


async def test_a_company_holds_as_many_permits_as_it_may() -> None:
    callers = Callers(permits=4, waiting=None, each=2)
    await callers.arrive("a1", "a2", "a3", "b1")
    assert callers.inside == ["a1", "a2", "b1"]
    await callers.end("a1")
    assert callers.inside == ["a2", "b1", "a3"]


async def test_a_company_alone_holds_more_than_its_part_and_leaves_the_spare_ones() -> None:
    callers = Callers(permits=6, each=2, spare=1)
    await callers.arrive("a1", "a2", "a3", "a4", "a5", "a6", "b1")
    assert callers.inside == ["a1", "a2", "a3", "a4", "a5", "b1"]
    await callers.arrive("b2")
    assert callers.semaphore.waiting == 2
    await callers.end("a1")
    assert callers.inside[-2:] == ["b1", "b2"], "the company that has its part waits for the other one"
    assert callers.semaphore.waiting == 1
    await callers.end("a2")
    assert "a6" not in callers.inside, "the spare one stays free"
    await callers.end("b1")
    assert callers.inside == ["a3", "a4", "a5", "b2", "a6"]


async def test_a_company_beyond_its_part_has_no_permit_while_another_waits() -> None:
    callers = Callers(permits=8, each=2, spare=1)
    await callers.arrive(*(f"a{number}" for number in range(8)), "b1", "c1")
    assert callers.semaphore.waiting == 2
    await callers.end("a0")
    await callers.end("a1")
    assert "c1" in callers.inside
    assert "a7" not in callers.inside


async def test_a_refusal_leaves_no_queue_behind() -> None:
    semaphore = FairSemaphore(1, waiting=0)
    async with semaphore.acquire("a"):
        with pytest.raises(QueueFull):
            async with semaphore.acquire("a"):
                pass
    async with semaphore.acquire("b"):
        pass


async def cancel_first(callers: Callers) -> None:
    callers.calls["a2"].cancel()
    await callers.end("a1")


async def cancel_when_granted(callers: Callers) -> None:
    callers._ends["a1"].set()
    while "a1" in callers.inside:
        await asyncio.sleep(0)
    callers.calls["a2"].cancel()
    await settled()


@pytest.mark.parametrize("cancelled", [cancel_first, cancel_when_granted])
async def test_a_cancelled_call_keeps_no_permit(cancelled: Callable[[Callers], Awaitable[None]]) -> None:
    callers = Callers(permits=1)
    await callers.arrive("a1", "a2", "a3", "b1")
    await cancelled(callers)
    for _ in range(2):
        await callers.end(callers.inside[0])
    await callers.arrive("c1")
    assert callers.inside == ["c1"]


def filled(*items: tuple[str, int]) -> FairQueue[tuple[str, int]]:
    queue = FairQueue[tuple[str, int]]()
    for item in items:
        queue.put(item[0], item)
    return queue


def test_a_long_queue_costs_the_others_one_turn_each() -> None:
    queue = filled(*(("busy", number) for number in range(50)), ("quiet", 0), ("quiet", 1))
    assert queue.take(4) == [("busy", 0), ("quiet", 0), ("busy", 1), ("quiet", 1)]
    assert len(queue) == 48


def test_the_turn_goes_on_with_the_next_batch() -> None:
    queue = filled(*(("a", number) for number in range(3)), *(("b", number) for number in range(3)))
    assert queue.take(1) + queue.take(1) + queue.take(1) == [("a", 0), ("b", 0), ("a", 1)]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers()), max_size=50), st.integers(1, 10))
def test_everything_is_taken_once_and_in_order_within_a_company(items: list[tuple[str, int]], most: int) -> None:
    queue = filled(*items)
    taken = []
    while queue:
        taken += queue.take(most)
    for company in "abc":
        assert [item for item in taken if item[0] == company] == [item for item in items if item[0] == company]
    assert len(taken) == len(items)
    assert queue.take(most) == []
