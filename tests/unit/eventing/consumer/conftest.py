"""A consumer group on the broker in memory, and a handler that does as it is told. Its tests run in virtual time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from libs.eventing import ConsumerLoop
from libs.eventing.bus import Record
from libs.eventing.dead_letters import DeadLetters
from libs.retry import RetryPolicy
from tests.support.memory_bus import MemoryBus

TOPIC = "things-commands"


DEAD = "things-commands-things-dlq"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Handler:
    """Does what a test says for a value, and remembers the order of starts and ends."""

    def __init__(self) -> None:
        self.behaviours: dict[bytes, Callable[[], Awaitable[None]]] = {}
        self.started: list[bytes] = []
        self.done: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.given_up: list[tuple[bytes, str]] = []

    async def deliver(self, record: Record) -> None:
        self.started.append(record.value)
        try:
            if record.value in self.behaviours:
                await self.behaviours[record.value]()
        except asyncio.CancelledError:
            self.cancelled.append(record.value)
            raise
        self.done.append(record.value)

    async def give_up(self, record: Record, cause: str) -> None:
        self.given_up.append((record.value, cause))

    def blocks(self, value: bytes) -> asyncio.Event:
        released = asyncio.Event()

        async def wait() -> None:
            await released.wait()

        self.behaviours[value] = wait
        return released

    def fails(self, value: bytes, problem: Exception, *, times: int | None = None) -> None:
        left = [times]

        async def fail() -> None:
            if left[0] is None:
                raise problem
            if left[0] > 0:
                left[0] -= 1
                raise problem

        self.behaviours[value] = fail


class Group:
    def __init__(self, bus: MemoryBus, clock: Clock) -> None:
        self.bus = bus
        self.clock = clock
        self.loops: list[tuple[ConsumerLoop, asyncio.Task[None]]] = []

    def join(self, handler: Handler, *, high_water: int = 1000) -> ConsumerLoop:
        loop = ConsumerLoop(
            self.bus,
            handler,
            DeadLetters(self.bus.producer(), consumer="things"),
            group="things",
            topics=[TOPIC],
            high_water=high_water,
            retries=RetryPolicy(first=0.1, longest=0.2, give_up_after=900, clock=self.clock),
        )
        self.loops.append((loop, asyncio.create_task(loop.run())))
        return loop

    async def leave(self, loop: ConsumerLoop) -> None:
        await loop.stop()
        await next(task for known, task in self.loops if known is loop)

    def committed(self) -> int:
        return sum(self.bus.committed.get(("things", partition), 0) for partition in self.bus.partitions_of([TOPIC]))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def group(clock: Clock) -> AsyncIterator[Group]:
    group = Group(MemoryBus(partitions=1), clock)
    yield group
    for loop, task in group.loops:
        await loop.stop()
        await task


async def send(group: Group, key: str, *values: bytes) -> None:
    for value in values:
        await group.bus.producer().send(TOPIC, key, value, [("h", b"1")])
