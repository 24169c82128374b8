"""The consumer loop on the broker in memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable

import psycopg
import pytest

from libs.contracts.topics import MAX_MESSAGE_BYTES
from libs.eventing import BusUnavailable, ConsumerLoop, DeadLetters, MemoryBus, PoisonMessage, Record, RetryPolicy
from libs.eventing._bus import Partition
from tests.support.bus_members import eventually

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

    async def give_up(self, record: Record, reason: str) -> None:
        self.given_up.append((record.value, reason))

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
            retry=RetryPolicy(first=0.001, longest=0.002, give_up_after=900, clock=self.clock),
        )
        self.loops.append((loop, asyncio.create_task(loop.run())))
        return loop

    async def leave(self, loop: ConsumerLoop) -> None:
        await loop.stop()
        await next(task for known, task in self.loops if known is loop)

    def committed(self) -> int:
        return sum(self.bus.committed.get(("things", place), 0) for place in self.bus.places([TOPIC]))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def group(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Group]:
    monkeypatch.setattr("libs.eventing._consumer._COMMIT_SECONDS", 0.0)
    monkeypatch.setattr("libs.eventing._consumer._POLL_SECONDS", 0.02)
    monkeypatch.setattr("libs.eventing._consumer._REVOKE_SECONDS", 0.1)
    monkeypatch.setattr("libs.eventing._consumer._RECONNECT_SECONDS", 0.01)
    group = Group(MemoryBus(partitions=1), clock)
    yield group
    for loop, task in group.loops:
        await loop.stop()
        await task


async def send(group: Group, key: str, *values: bytes) -> None:
    for value in values:
        await group.bus.producer().send(TOPIC, key, value, [("h", b"1")])


async def test_keys_go_on_beside_each_other_and_one_key_in_order(group: Group) -> None:
    handler = Handler()
    released = handler.blocks(b"a1")
    await send(group, "a", b"a1", b"a2", b"a3")
    await send(group, "b", b"b1", b"b2")
    group.join(handler)

    await eventually(lambda: handler.done == [b"b1", b"b2"])
    assert handler.started.count(b"a2") == 0
    released.set()
    await eventually(lambda: len(handler.done) == 5)
    assert [value for value in handler.done if value.startswith(b"a")] == [b"a1", b"a2", b"a3"]


async def test_offsets_are_committed_only_past_what_is_done(group: Group) -> None:
    handler = Handler()
    released = handler.blocks(b"a1")
    await send(group, "b", b"b0")
    await send(group, "a", b"a1")
    await send(group, "b", b"b1", b"b2")
    group.join(handler)

    await eventually(lambda: b"b2" in handler.done and group.committed() == 1)
    released.set()
    await eventually(lambda: group.committed() == 4)


async def test_a_failure_is_tried_again_uncommitted_while_other_keys_go_on(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", RuntimeError("not now"))
    await send(group, "a", b"a1", b"a2")
    await send(group, "b", b"b1")
    group.join(handler)

    await eventually(lambda: handler.started.count(b"a1") >= 5 and b"b1" in handler.done)
    assert group.committed() == 0
    assert b"a2" not in handler.started
    handler.behaviours.clear()
    await eventually(lambda: group.committed() == 3)
    assert group.bus.records(DEAD) == []


async def test_poison_goes_to_the_dead_letters_with_its_reason(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", PoisonMessage("makes no sense"))
    await send(group, "a", b"a0", b"a1", b"a2")
    group.join(handler)

    await eventually(lambda: group.committed() == 3)
    assert handler.given_up == [(b"a1", "makes no sense")]
    (letter,) = group.bus.records(DEAD)
    headers = dict(letter.headers)
    assert (letter.key, letter.value, headers["h"]) == ("a", b"a1", b"1")
    assert headers["dlq_reason"] == b"makes no sense"
    assert (headers["dlq_topic"], headers["dlq_partition"], headers["dlq_offset"]) == (TOPIC.encode(), b"0", b"1")
    assert handler.done == [b"a0", b"a2"]


async def test_the_offset_waits_for_the_dead_letter(group: Group) -> None:
    handler = Handler()
    handler.fails(b"a1", PoisonMessage("no"))
    broken = [True]

    async def give_up(record: Record, reason: str) -> None:
        if broken[0]:
            raise BusUnavailable("the outcome cannot be recorded")

    handler.give_up = give_up  # type: ignore[method-assign]
    await send(group, "a", b"a1")
    group.join(handler)
    await eventually(lambda: handler.started != [])
    await asyncio.sleep(0.1)
    assert group.committed() == 0
    assert group.bus.records(DEAD) == []
    broken[0] = False
    await eventually(lambda: group.committed() == 1)
    assert len(group.bus.records(DEAD)) == 1


async def test_a_failure_is_given_up_when_its_time_is_over(group: Group, clock: Clock) -> None:
    handler = Handler()
    handler.fails(b"a1", RuntimeError("never"))
    await send(group, "a", b"a1")
    group.join(handler)
    await eventually(lambda: len(handler.started) >= 3)
    clock.now = 899
    seen = len(handler.started)
    await eventually(lambda: len(handler.started) >= seen + 3)
    assert handler.given_up == []
    clock.now = 900
    await eventually(lambda: group.committed() == 1)
    assert handler.given_up == [(b"a1", "RuntimeError('never')")]
    assert int(dict(group.bus.records(DEAD)[0].headers)["dlq_attempts"]) == len(handler.started)


@pytest.mark.parametrize("locked", [psycopg.errors.LockNotAvailable("held"), psycopg.errors.DeadlockDetected("of two")])
async def test_locks_that_are_never_free_are_given_up(group: Group, clock: Clock, locked: Exception) -> None:
    handler = Handler()
    handler.fails(b"a1", locked)
    await send(group, "a", b"a1")
    group.join(handler)
    await eventually(lambda: len(handler.started) >= 2)
    clock.now = 900
    await eventually(lambda: group.committed() == 1)
    assert handler.given_up == [(b"a1", repr(locked))]


@pytest.mark.parametrize("outage", [BusUnavailable("down"), psycopg.OperationalError("down")])
async def test_an_outage_is_never_given_up_and_does_not_count(group: Group, clock: Clock, outage: Exception) -> None:
    handler = Handler()
    handler.fails(b"a1", outage)
    await send(group, "a", b"a1")
    group.join(handler)
    await eventually(lambda: len(handler.started) >= 2)
    clock.now = 100_000
    seen = len(handler.started)
    await eventually(lambda: len(handler.started) >= seen + 3)

    handler.fails(b"a1", RuntimeError("once more"), times=3)
    await eventually(lambda: handler.done == [b"a1"])
    assert handler.given_up == []


async def test_a_revoked_partition_is_drained_and_its_position_handed_on(group: Group) -> None:
    first, second = Handler(), Handler()
    released = first.blocks(b"a1")
    await send(group, "a", b"a1", b"a2", b"a3")
    old = group.join(first)
    await eventually(lambda: first.started == [b"a1"])

    revoked = asyncio.create_task(old.revoked(frozenset({Partition(TOPIC, 0)})))
    await asyncio.sleep(0.02)
    released.set()
    await revoked
    assert first.done == [b"a1"]
    assert group.committed() == 1
    await group.leave(old)
    group.join(second)
    await eventually(lambda: second.done == [b"a2", b"a3"])


async def test_what_does_not_end_in_time_is_cancelled_and_read_again(group: Group) -> None:
    first, second = Handler(), Handler()
    first.blocks(b"a1")
    await send(group, "a", b"a1", b"a2")
    old = group.join(first)
    await eventually(lambda: first.started == [b"a1"])
    group.join(second)  # with one partition and two members the first one keeps it

    await eventually(lambda: first.cancelled != [])
    first.behaviours.clear()
    await eventually(lambda: first.done == [b"a1", b"a2"])
    await eventually(lambda: group.committed() == 2)
    await group.leave(old)
    assert second.done == []


async def test_stopping_hands_back_what_is_not_done(group: Group) -> None:
    first, second = Handler(), Handler()
    first.blocks(b"a1")
    await send(group, "b", b"b0")
    await send(group, "a", b"a1", b"a2")
    loop = group.join(first)
    await eventually(lambda: b"a1" in first.started and b"b0" in first.done)
    await group.leave(loop)
    assert not loop.joined
    assert first.cancelled == [b"a1"]
    assert group.committed() == 1
    group.join(second)
    await eventually(lambda: second.done == [b"a1", b"a2"])


async def test_a_lost_broker_is_joined_again_and_nothing_stays_behind(group: Group) -> None:
    handler = Handler()
    handler.blocks(b"a1")
    await send(group, "a", b"a1", b"a2")
    loop = group.join(handler)
    await eventually(lambda: handler.started == [b"a1"])
    group.bus.down = True
    await eventually(lambda: not loop.joined)
    handler.behaviours.clear()
    group.bus.down = False
    await eventually(lambda: loop.joined and group.committed() == 2)
    assert loop._over_limit() is False
    await send(group, "a", b"a3")
    await eventually(lambda: group.committed() == 3)
    assert handler.done[-1] == b"a3"


async def test_too_much_in_work_pauses_the_fetching(group: Group) -> None:
    handler = Handler()
    gates = [handler.blocks(b"%d" % number) for number in range(10)]
    for number in range(10):
        await send(group, f"key-{number}", b"%d" % number)
    group.join(handler, high_water=10)
    await eventually(lambda: len(handler.started) == 10)
    await send(group, "later", b"late")
    await asyncio.sleep(0.2)
    assert b"late" not in handler.started
    for gate in gates:
        gate.set()
    await eventually(lambda: b"late" in handler.done)


async def test_two_members_do_everything_once(group: Group) -> None:
    group.bus.partitions = 4
    first, second = Handler(), Handler()
    loop, other = group.join(first), group.join(second)
    await eventually(lambda: loop.joined and other.joined)
    await asyncio.sleep(0.1)
    for number in range(100):
        await send(group, f"key-{number}", b"%d" % number)
    await eventually(lambda: group.committed() == 100)
    counts = Counter([*first.done, *second.done])
    assert len(counts) == 100
    assert set(counts.values()) == {1}
    assert first.done
    assert second.done


async def test_a_letter_that_its_headers_make_too_large_leaves_its_value_behind() -> None:
    bus = MemoryBus()
    inner = bus.producer()

    class Picky:
        healthy = True

        async def send(self, topic, key, value, headers):
            size = len(value) + sum(len(name) + len(content) for name, content in headers)
            return await inner.send(topic, key, value if size <= MAX_MESSAGE_BYTES else value + b"x" * size, headers)

    value = b"v" * MAX_MESSAGE_BYTES
    record = Record(TOPIC, 0, 7, "key", value, ())
    await DeadLetters(Picky(), consumer="things").put(record, reason="too bad", attempts=1)  # type: ignore[arg-type]
    (letter,) = bus.records(DEAD)
    assert letter.value == b""
    assert dict(letter.headers)["dlq_omitted_bytes"] == str(len(value)).encode()
    assert dict(letter.headers)["dlq_offset"] == b"7"
