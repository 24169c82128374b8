"""Writes of turns that are committed together, and the leases they hold."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from libs.contracts.errors import StoreUnavailable
from services.runtime.use_cases.engine import commits
from services.runtime.use_cases.engine.commits import GroupCommit
from services.runtime.use_cases.engine.lease_keeper import LeaseKeeper
from tests.support.waiting import elapse, until


class Ledger:
    """Commits numbers; negative ones are bad. ``gate`` holds a transaction in flight."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.down = False

    async def commit(self, items: Sequence[int]) -> list[int]:
        self.batches.append(list(items))
        await self.gate.wait()
        if self.down:
            raise StoreUnavailable("away")
        if any(item < 0 for item in items):
            raise ValueError("bad item")
        return [item * 10 for item in items]


def company_of(number: int) -> str:
    return "quiet" if number >= 100 else "busy"


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def group(ledger: Ledger) -> GroupCommit[int, int]:
    return GroupCommit(ledger.commit, company_of)


async def all_of(group: GroupCommit[int, Any], *numbers: int) -> list[Any]:
    return await asyncio.gather(*[group.submit(number) for number in numbers], return_exceptions=True)


async def test_arrivals_during_a_transaction_share_the_next(ledger: Ledger, group: GroupCommit[int, int]) -> None:
    ledger.gate.clear()
    submitted = [asyncio.create_task(group.submit(number)) for number in (1, 2, 3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = [asyncio.create_task(group.submit(number)) for number in (4, 5)]
    await asyncio.sleep(0)
    ledger.gate.set()
    assert await asyncio.gather(*submitted, *later) == [10, 20, 30, 40, 50]
    assert ledger.batches in ([[1, 2, 3], [4, 5]], [[1], [2, 3, 4, 5]])


@pytest.mark.virtual_time
async def test_right_after_a_batch_of_several_the_next_one_lingers_for_others(
    ledger: Ledger, group: GroupCommit[int, int]
) -> None:
    await group.submit(1)
    await all_of(group, 2, 3)
    first = asyncio.create_task(group.submit(4))
    await elapse(commits._LINGER_SECONDS * 0.9)
    assert len(ledger.batches) == 2
    assert await asyncio.gather(first, group.submit(5)) == [40, 50]
    assert ledger.batches == [[1], [2, 3], [4, 5]]


@pytest.mark.virtual_time
async def test_a_lone_item_lingers_no_more_once_nothing_has_come_for_a_while(group: GroupCommit[int, int]) -> None:
    await all_of(group, 1, 2)
    await elapse(commits._BUSY_SECONDS)
    began = asyncio.get_running_loop().time()
    assert await group.submit(3) == 30
    assert asyncio.get_running_loop().time() == began


async def test_a_batch_has_a_limit_and_items_of_each_company_in_turn(ledger: Ledger) -> None:
    group = GroupCommit(ledger.commit, company_of, limit=4)
    numbers = [*range(10), 100, 101]
    assert await all_of(group, *numbers) == [number * 10 for number in numbers]
    assert ledger.batches == [[0, 100, 1, 101], [2, 3, 4, 5], [6, 7, 8, 9]]


async def test_a_bad_item_fails_alone(group: GroupCommit[int, int]) -> None:
    first, bad, last = await all_of(group, 1, -2, 3)
    assert (first, type(bad), last) == (10, ValueError, 30)


@pytest.mark.parametrize(("problem", "batches"), [(ValueError("bad item"), 3), (StoreUnavailable("away"), 1)])
async def test_items_that_fail_beside_others_are_tried_alone_and_the_others_no_more(
    problem: Exception, batches: int
) -> None:
    committed: list[list[int]] = []

    async def commit(items: Sequence[int]) -> list[int | Exception]:
        committed.append(list(items))
        return [item if item > 0 else problem for item in items]

    assert await all_of(GroupCommit(commit, company_of), 1, -2, 3, -4) == [1, problem, 3, problem]
    assert committed == [[1, -2, 3, -4], [-2], [-4]][:batches]


async def test_an_outage_is_not_tried_item_by_item(ledger: Ledger, group: GroupCommit[int, int]) -> None:
    ledger.down = True
    assert [type(result) for result in await all_of(group, 1, 2, 3)] == [StoreUnavailable] * 3
    assert len(ledger.batches) == 1
    ledger.down = False
    assert await group.submit(4) == 40


async def test_an_item_whose_wait_was_cancelled_is_committed_all_the_same(
    ledger: Ledger, group: GroupCommit[int, int]
) -> None:
    ledger.gate.clear()
    waiting = asyncio.create_task(group.submit(1))
    other = asyncio.create_task(group.submit(2))
    await asyncio.sleep(0)
    waiting.cancel()
    ledger.gate.set()
    assert await other == 20
    assert sorted(number for batch in ledger.batches for number in batch) == [1, 2]


@pytest.mark.parametrize("numbers", [(1,), (1, 2, 3)])
async def test_a_missing_result_is_an_error_and_nothing_is_committed_twice(numbers: tuple[int, ...]) -> None:
    committed: list[int] = []

    async def commit(items: Sequence[int]) -> list[int]:
        committed.extend(items)
        return list(items[1:])

    group = GroupCommit(commit, company_of)
    async with asyncio.timeout(10):
        assert [type(result) for result in await all_of(group, *numbers)] == [RuntimeError] * len(numbers)
        assert committed == list(numbers)
        with pytest.raises(RuntimeError, match="0 results for 1 committed"):
            await group.submit(4)


class SlowLeases:
    """Leases whose renewals take until they are let through; ``done`` is what took effect, in order."""

    def __init__(self) -> None:
        self.begun = 0
        self.done: list[str] = []
        self.through = asyncio.Event()

    async def renew(self) -> None:
        self.begun += 1
        await self.through.wait()
        self.done.append("renewed")

    async def release(self) -> None:
        self.done.append("released")


async def test_a_released_lease_is_not_renewed() -> None:
    leases, pauses = SlowLeases(), 0

    async def pause(_seconds: float) -> None:
        nonlocal pauses
        pauses += 1
        await asyncio.sleep(0)

    keep = LeaseKeeper(leases, interval=1.0, sleep=pause)
    keeping = asyncio.create_task(keep.run())
    await until(lambda: leases.begun)
    releasing = asyncio.create_task(keep.release())
    await asyncio.sleep(0)
    leases.through.set()
    await releasing
    seen = pauses
    await until(lambda: pauses > seen + 2)
    assert leases.done == ["renewed", "released"]
    keeping.cancel()
    await asyncio.wait({keeping})
