"""Work by key: in order within one, concurrent across keys."""

import asyncio

import pytest

from libs.eventing._key_queues import KeyQueues
from tests.support.waiting import until


class Work:
    """Items begin at once and end when they are let go."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.done: list[str] = []
        self.gates: dict[str, asyncio.Event] = {}
        self.queues: KeyQueues[str, str] = KeyQueues(self, name="work")

    def put(self, *items: str) -> None:
        for item in items:
            self.gates[item] = asyncio.Event()
            self.queues.put(item[0], item)

    async def __call__(self, item: str) -> None:
        self.begun.append(item)
        await self.gates[item].wait()
        if item.endswith("!"):
            raise RuntimeError(item)
        self.done.append(item)


async def test_items_of_a_key_follow_each_other_and_keys_do_not_wait() -> None:
    work = Work()
    work.put("a1", "a2", "b1")
    await until(lambda: work.begun == ["a1", "b1"])
    assert set(work.queues.keys) == {"a", "b"}
    work.gates["b1"].set()
    await until(lambda: work.done == ["b1"])
    work.gates["a2"].set()
    work.gates["a1"].set()
    await until(lambda: work.done == ["b1", "a1", "a2"])
    await until(lambda: len(work.queues.keys) == 0)


async def test_what_has_not_begun_can_be_dropped() -> None:
    work = Work()
    work.put("a1", "a2", "a3")
    await until(lambda: work.begun == ["a1"])
    work.queues.drop_waiting("a")
    work.gates["a1"].set()
    await work.queues.task("a")
    assert (work.done, list(work.queues.keys)) == (["a1"], [])


async def test_dropping_before_the_first_has_begun_keeps_it() -> None:
    work = Work()
    work.put("a1", "a2")
    work.queues.drop_waiting("a")
    work.gates["a1"].set()
    await work.queues.task("a")
    assert work.done == ["a1"]


async def test_a_failure_drops_what_waits_behind_it_and_nothing_else() -> None:
    work = Work()
    work.put("a1!", "a2", "b1")
    await until(lambda: work.begun == ["a1!", "b1"])
    failing = work.queues.task("a")
    work.gates["a1!"].set()
    with pytest.raises(RuntimeError):
        await failing
    assert list(work.queues.keys) == ["b"]
    work.put("a3")
    work.gates["a3"].set()
    work.gates["b1"].set()
    await until(lambda: len(work.queues.keys) == 0)
    assert sorted(work.done) == ["a3", "b1"]
