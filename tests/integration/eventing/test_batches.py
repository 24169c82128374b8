"""One suite for batches of both buses: shares of all topics, the order of publishing, offsets of the store."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaProducer

from libs.contracts.messages import PoisonMessage
from libs.contracts.topics import events_topic
from libs.eventing import KafkaBus
from libs.eventing.administration import create_topics
from libs.eventing.batches import BatchConsumer
from libs.eventing.bus import Bus, OffsetMove, Partition, Producer, Record, StaleOffset
from libs.eventing.dead_letters import DeadLetters
from libs.retry import RetryPolicy
from tests.integration.eventing.bus_members import Member
from tests.support.memory_bus import MemoryBus
from tests.support.waiting import until


@dataclass
class BatchSink:
    """Keeps what members of a group store; ``stored`` in the order of storing, repeats included.

    ``poison`` values cannot be read, ``indigestible`` ones cannot be stored. Values in ``partial`` have to be fetched,
    which waits for the event. ``failures`` are raised by the next calls of ``store``, which wait for the ``gate``.
    """

    offsets_stored: dict[Partition, int] = field(default_factory=dict)
    stored: list[bytes] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    poison: set[bytes] = field(default_factory=set)
    indigestible: set[bytes] = field(default_factory=set)
    partial: dict[bytes, asyncio.Event] = field(default_factory=dict)
    failures: list[Exception] = field(default_factory=list)
    overtaken: int = 0
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.gate.set()

    async def offsets(self, topics: Sequence[str]) -> Mapping[Partition, int]:
        return {partition: at for partition, at in self.offsets_stored.items() if partition.topic in topics}

    def read(self, record: Record) -> bytes | None:
        if record.value in self.poison:
            raise PoisonMessage("cannot be read")
        return record.value or None

    def is_whole(self, item: bytes) -> bool:
        return item not in self.partial

    async def fetch(self, item: bytes) -> bytes:
        await self.partial[item].wait()
        return item

    async def store(self, items: Sequence[bytes], moves: Mapping[Partition, OffsetMove]) -> None:
        await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        if self.indigestible.intersection(items):
            raise PoisonMessage("cannot be stored")
        if any(self.offsets_stored.get(partition) != move.before for partition, move in moves.items()):
            self.overtaken += 1
            raise StaleOffset
        self.offsets_stored |= {partition: move.after for partition, move in moves.items()}
        self.stored += items
        self.batches.append(len(items))


CAUSES = events_topic("causes", 4, ("things",))
EFFECTS = events_topic("effects", 4, ("things",))
TOPICS = [CAUSES.name, EFFECTS.name]
KEYS = [f"key-{number}" for number in range(12)]


@pytest.fixture(params=["memory", "kafka"])
async def bus(request: pytest.FixtureRequest, topic_prefix: str) -> Bus:
    if request.param == "memory":
        return MemoryBus(partitions=4)
    servers = request.getfixturevalue("kafka")
    await create_topics(servers, topic_prefix, topics=(CAUSES, EFFECTS))
    return KafkaBus(servers, prefix=topic_prefix)


@pytest.fixture
async def producer(bus: Bus) -> AsyncIterator[Producer]:
    producer = bus.producer()
    await producer.start()
    await until(lambda: producer.healthy)
    yield producer
    await producer.stop()


@pytest.fixture
def sink() -> BatchSink:
    return BatchSink()


Join = Callable[[], "BatchMember"]


class BatchMember:
    def __init__(self, bus: Bus, producer: Producer, sink: BatchSink) -> None:
        self.consumer = BatchConsumer(
            bus,
            sink,
            DeadLetters(producer, consumer="things"),
            group="things-batches",
            topics=TOPICS,
            retries=RetryPolicy(first=0.01, longest=0.02, give_up_after=0.2),
            pace=0.005,
        )
        self.running = asyncio.create_task(self.consumer.run())

    async def stop(self) -> None:
        await self.consumer.stop()
        await self.running


@pytest.fixture
async def join(bus: Bus, producer: Producer, sink: BatchSink) -> AsyncIterator[Join]:
    members: list[BatchMember] = []

    def join() -> BatchMember:
        members.append(BatchMember(bus, producer, sink))
        return members[-1]

    yield join
    sink.gate.set()
    for member in members:
        await member.stop()


async def send(producer: Producer, first: int, count: int, topic: str | None = None) -> list[bytes]:
    values = [str(number).encode() for number in range(first, first + count)]
    for number, value in enumerate(values, first):
        sent = await producer.send(topic or TOPICS[number % 2], KEYS[number % len(KEYS)], value, [])
        await sent
    return values


async def test_everything_is_stored_once_in_the_order_of_each_key(producer: Producer, sink: BatchSink, join) -> None:
    values = await send(producer, 0, 100)
    join()
    await until(lambda: len(sink.stored) >= 100)
    # Nothing is stored until all is there: arrivals meet in a batch however slowly they come.
    sink.gate.clear()
    values += await send(producer, 100, 100)
    sink.gate.set()
    await until(lambda: len(sink.stored) >= 200)
    assert sorted(sink.stored) == sorted(values)
    for place in range(len(KEYS)):
        numbers = [int(value) for value in sink.stored if int(value) % len(KEYS) == place]
        assert numbers[::2] == sorted(numbers[::2])
    assert sum(sink.offsets_stored.values()) == 200
    assert len(sink.batches) < 100


async def test_an_effect_on_another_topic_comes_after_its_cause(
    bus: Bus, producer: Producer, sink: BatchSink, join, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All causes are there before any effect; with everything to be read at once, the topics may come in any order."""
    now = time.time
    if isinstance(bus, MemoryBus):
        bus.clock = lambda: time.time()
    with monkeypatch.context() as earlier:
        # By the clock of their producer, causes come more than the second before that the order is promised for.
        earlier.setattr(time, "time", lambda: now() - 1.1)
        await send(producer, 0, 60, CAUSES.name)
    await send(producer, 1000, 60, EFFECTS.name)
    join()
    await until(lambda: len(sink.stored) >= 120)
    for place, value in enumerate(sink.stored):
        number = int(value)
        if number >= 1000:
            # The last cause of the same key.
            causes = [n for n in range(60) if KEYS[n % len(KEYS)] == KEYS[number % len(KEYS)]]
            assert all(str(cause).encode() in sink.stored[:place] for cause in causes)


@pytest.mark.parametrize("bus", ["kafka"], indirect=True)
async def test_the_end_of_a_transaction_holds_up_no_other_topic(
    kafka: str, topic_prefix: str, producer: Producer, sink: BatchSink, join, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was found to be empty before something else was fetched was so too long ago.
    monkeypatch.setattr("libs.eventing._ordered_merge._SETTLED_SECONDS", 0.0)
    first = join()
    await until(lambda: first.consumer.joined)
    transactional = AIOKafkaProducer(bootstrap_servers=kafka, transactional_id=f"{topic_prefix}replay")
    async with transactional, transactional.transaction():
        await transactional.send_and_wait(topic_prefix + CAUSES.name, b"0", key=KEYS[0].encode())
    await until(lambda: sink.stored == [b"0"])
    values = await send(producer, 12, 1, EFFECTS.name)
    await until(lambda: sink.stored == [b"0", *values])
    await first.stop()
    join()
    values += await send(producer, 24, 1, EFFECTS.name)
    await until(lambda: sink.stored == [b"0", *values])


async def test_members_own_the_same_numbers_of_all_topics(producer: Producer, join) -> None:
    """Keys of one topic are in partitions of the same numbers of the others."""
    members = [join() for _ in range(3)]
    held = [frozenset[Partition]() for _ in members]

    def shared() -> bool:
        held[:] = [each.consumer._partitions for each in members]
        return all(each.consumer.joined for each in members) and sum(map(len, held)) == 8

    await until(shared)
    assert frozenset().union(*held) == {Partition(topic, number) for topic in TOPICS for number in range(4)}
    for mine in held:
        by_topic = [{at.number for at in mine if at.topic == topic} for topic in TOPICS]
        assert by_topic[0] == by_topic[1] != set()


@pytest.mark.rule(28)
async def test_members_come_and_go_and_nothing_is_lost_or_doubled(producer: Producer, sink: BatchSink, join) -> None:
    first = join()
    await until(lambda: first.consumer.joined)
    values = await send(producer, 0, 50)
    second, third = join(), join()
    values += await send(producer, 50, 50)
    await until(lambda: all(each.consumer.joined for each in (first, second, third)))
    values += await send(producer, 100, 50)
    await second.stop()
    values += await send(producer, 150, 50)
    await first.stop()
    await until(lambda: len(sink.stored) >= 200)
    assert sorted(sink.stored) == sorted(values)


async def test_it_goes_on_behind_what_is_stored_and_not_behind_the_commits(
    bus: Bus, producer: Producer, sink: BatchSink, join
) -> None:
    values = await send(producer, 0, 40)
    reader = await Member(bus, "things-batches", TOPICS).start()
    await until(lambda: len(reader.records) == 40)
    half = {Partition(record.topic, record.partition): record.offset for record in reader.records}
    await reader.done()
    await reader.stop()
    for partition, last in half.items():
        sink.offsets_stored[partition] = last
    expected = {each.value for each in reader.records if each.offset == half[Partition(each.topic, each.partition)]}
    join()
    await until(lambda: len(sink.stored) >= len(expected))
    assert set(sink.stored) == expected < set(values)


async def test_an_offset_that_a_topic_does_not_have_means_its_beginning(
    bus: Bus, producer: Producer, sink: BatchSink, join
) -> None:
    values = await send(producer, 0, 12)
    for number in range(4):
        for topic in TOPICS:
            reader = await Member(bus, "look", TOPICS).start()
            await reader.stop()
            sink.offsets_stored[next(p for p in reader.held if (p.topic, p.number) == (topic, number))] = 10_000
        break
    join()
    await until(lambda: len(sink.stored) >= 12)
    assert sorted(sink.stored) == sorted(values)


async def test_unreadable_records_are_dead_lettered_one_by_one(
    bus: Bus, producer: Producer, sink: BatchSink, join
) -> None:
    sink.poison, sink.indigestible = {b"3"}, {b"8", b"20"}
    values = await send(producer, 0, 24)
    join()
    await until(lambda: len(sink.stored) >= 21)
    assert set(sink.stored) == set(values) - {b"3", b"8", b"20"}
    assert len(sink.stored) == 21
    await until(lambda: sum(sink.offsets_stored.values()) == 24)


async def test_failures_that_pass_cost_nothing(producer: Producer, sink: BatchSink, join) -> None:
    sink.failures = [RuntimeError("once"), OSError("twice"), RuntimeError("three times")]
    values = await send(producer, 0, 24)
    join()
    await until(lambda: len(sink.stored) >= 24)
    assert sorted(sink.stored) == sorted(values)


async def test_a_payload_that_has_to_be_fetched_holds_up_partitions_of_its_number_only(
    producer: Producer, sink: BatchSink, join
) -> None:
    sink.partial = {b"0": asyncio.Event()}
    values = await send(producer, 0, 48)
    join()
    await until(lambda: len(sink.stored) >= 12)
    assert b"0" not in sink.stored
    sink.partial[b"0"].set()
    await until(lambda: len(sink.stored) >= 48)
    assert sorted(sink.stored) == sorted(values)


async def test_empty_records_only_move_the_offset(producer: Producer, sink: BatchSink, join) -> None:
    await (await producer.send(CAUSES.name, "key", b"", []))
    join()
    await until(lambda: sum(sink.offsets_stored.values()) == 1)
    assert sink.stored == []


async def test_a_member_that_was_overtaken_goes_on_behind_the_other(producer: Producer, sink: BatchSink, join) -> None:
    """A frozen member wakes up: its partitions have been stored further by another one."""
    member = join()
    await until(lambda: member.consumer.joined)
    sink.gate.clear()
    values = await send(producer, 0, 24)
    await until(lambda: member.consumer._storing is not None)
    batch = member.consumer._storing
    # Another process stores the first record of some partition.
    partition = next(iter(member.consumer._partitions))
    sink.offsets_stored = dict.fromkeys(member.consumer._partitions, 0) | {partition: 0}
    sink.gate.set()
    await until(lambda: len(sink.stored) >= 24)
    assert batch is not None
    assert sink.overtaken >= 1
    assert sorted(sink.stored) == sorted(values)
