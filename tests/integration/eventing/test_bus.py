"""One suite for Kafka's bus and for the one in memory."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.contracts.topics import MAX_MESSAGE_BYTES, events_topic
from libs.eventing import KafkaBus
from libs.eventing.administration import create_topics
from libs.eventing.bus import Bus, MessageRefused, Producer, Tail
from tests.integration.eventing.bus_members import Member
from tests.support.memory_bus import MemoryBus
from tests.support.waiting import never, until

THINGS = events_topic("things", 3, ())
KEYS = [f"key-{number}" for number in range(20)]


@pytest.fixture(params=["memory", "kafka"])
async def bus(request: pytest.FixtureRequest, topic_prefix: str) -> Bus:
    if request.param == "memory":
        return MemoryBus(partitions=THINGS.partitions)
    servers = request.getfixturevalue("kafka")
    await create_topics(servers, topic_prefix, topics=(THINGS,))
    return KafkaBus(servers, prefix=topic_prefix)


@pytest.fixture
async def producer(bus: Bus) -> AsyncIterator[Producer]:
    producer = bus.producer()
    await producer.start()
    await until(lambda: producer.healthy)
    yield producer
    await producer.stop()


@pytest.fixture
async def members() -> AsyncIterator[list[Member]]:
    members: list[Member] = []
    yield members
    for member in members:
        await member.stop()


@pytest.fixture
def join(bus: Bus, members: list[Member]):
    async def join(group: str = "readers", *, limit: int = 500, linger: bool = False) -> Member:
        member = Member(bus, group, [THINGS.name], limit=limit, linger=linger)
        members.append(member)
        return await member.start()

    return join


async def send(producer: Producer, count: int, *, first: int = 0, keys: list[str] = KEYS) -> list[bytes]:
    values = [str(number).encode() for number in range(first, first + count)]
    sent = [
        await producer.send(THINGS.name, keys[number % len(keys)], value, [("n", value)])
        for number, value in enumerate(values)
    ]
    await asyncio.gather(*sent)
    return values


async def test_records_of_a_key_arrive_in_the_order_sent(producer: Producer, join) -> None:
    values = await send(producer, 300)
    member = await join()
    await until(lambda: len(member.records) >= 300)

    assert sorted(member.values) == sorted(values)
    for key in KEYS:
        numbers = [int(record.value) for record in member.records if record.key == key]
        assert numbers == sorted(numbers)
    assert {record.topic for record in member.records} == {THINGS.name}
    assert all(list(record.headers) == [("n", record.value)] for record in member.records)


async def test_a_reader_that_lingers_gets_everything(producer: Producer, join) -> None:
    member = await join(linger=True)
    values = await send(producer, 1)
    await until(lambda: member.values == values)
    values += await send(producer, 300, first=1)
    await until(lambda: len(member.values) >= 301)
    assert sorted(member.values) == sorted(values)


@pytest.mark.rule(18)
async def test_a_new_group_starts_at_the_earliest_record(producer: Producer, join) -> None:
    before = await send(producer, 5)
    member = await join("first")
    other = await join("second")
    await until(lambda: len(member.records) == 5 and len(other.records) == 5)
    assert sorted(member.values) == sorted(other.values) == sorted(before)


async def test_a_group_goes_on_where_it_committed(producer: Producer, join) -> None:
    await send(producer, 10)
    first = await join()
    await until(lambda: len(first.records) == 10)
    await first.done()
    await first.stop()
    later = await send(producer, 4, first=10)
    second = await join()
    await until(lambda: len(second.records) >= 4)
    assert sorted(second.values) == sorted(later)


@pytest.mark.rule(26)
async def test_what_was_not_committed_is_read_again(producer: Producer, join) -> None:
    values = await send(producer, 10)
    first = await join()
    await until(lambda: len(first.records) == 10)
    await first.stop()
    second = await join()
    await until(lambda: len(second.records) >= 10)
    assert sorted(second.values) == sorted(values)


async def test_members_share_the_partitions_and_get_callbacks(producer: Producer, join) -> None:
    first = await join()
    assert len(first.held) == 3
    second = await join()
    await until(lambda: len(first.held | second.held) == 3 and min(len(first.held), len(second.held)) > 0)
    assert not first.held & second.held
    assert any(len(revoked) == 3 for revoked in first.revocations)

    await send(producer, 60)
    await until(lambda: len(first.records) + len(second.records) >= 60)
    for member in (first, second):
        assert {(record.topic, record.partition) for record in member.records} <= member.held

    await second.stop()
    await until(lambda: len(first.held) == 3)


async def test_a_pause_outlasts_a_rebalance(producer: Producer, join) -> None:
    first = await join()
    first.paused = True
    second = await join()
    await until(lambda: second.held != frozenset())
    await second.stop()
    await until(lambda: len(first.held) == 3)
    values = await send(producer, 20)
    witness = await join("witness")
    await until(lambda: len(witness.records) == 20)
    asked = first.polls
    await never(lambda: first.records, during=until(lambda: first.polls >= asked + 5))

    first.paused = False
    await until(lambda: len(first.records) == 20)
    assert sorted(first.values) == sorted(values)


async def test_a_poll_keeps_its_limit_and_nothing_is_lost_by_it(producer: Producer, join) -> None:
    values = await send(producer, 200)
    few = await join("few", limit=7)
    many = await join("many", limit=100_000)
    await until(lambda: len(few.records) == 200 and len(many.records) == 200)
    assert few.largest_poll <= 7
    assert sorted(few.values) == sorted(many.values) == sorted(values)


async def read(tail: Tail, count: int) -> list[bytes]:
    values: list[bytes] = []

    async def complete() -> bool:
        values.extend(record.value for record in await tail.poll(0.5))
        return len(values) >= count

    await until(complete)
    return values


async def test_a_tail_reads_what_is_sent_after_its_start_and_nothing_before(bus: Bus, producer: Producer) -> None:
    await send(producer, 50)
    tail = bus.tail([THINGS.name])
    await tail.start()
    later = await send(producer, 20, first=50)
    assert sorted(await read(tail, 20)) == sorted(later)
    assert tail.answered() > float("-inf")
    await tail.stop()


async def test_a_tail_goes_on_at_the_offsets_of_another(bus: Bus, producer: Producer) -> None:
    """Also in partitions of which that one has read nothing."""
    first = bus.tail([THINGS.name])
    await first.start()
    (read_by_first,) = await send(producer, 1)
    assert await read(first, 1) == [read_by_first]
    await first.stop()
    missed = await send(producer, 20, first=1)
    second = bus.tail([THINGS.name], offsets=first.offsets)
    await second.start()
    assert sorted(await read(second, 20)) == sorted(missed)
    await second.stop()


async def test_a_tail_from_the_start_goes_on_at_offsets_too(bus: Bus, producer: Producer) -> None:
    values = await send(producer, 10)
    first = bus.tail([THINGS.name], from_start=True)
    await first.start()
    assert sorted(await read(first, 10)) == sorted(values)
    await first.stop()
    later = await send(producer, 10, first=10)
    second = bus.tail([THINGS.name], from_start=True, offsets=first.offsets)
    await second.start()
    assert sorted(await read(second, 10)) == sorted(later)
    await second.stop()


async def test_two_tails_both_read_everything(bus: Bus, producer: Producer) -> None:
    tails = [bus.tail([THINGS.name]) for _ in range(2)]
    for tail in tails:
        await tail.start()
    values = await send(producer, 10)
    for tail in tails:
        assert sorted(await read(tail, 10)) == sorted(values)
        await tail.stop()


async def test_a_message_that_is_too_large_is_refused_and_the_next_one_passes(producer: Producer, join) -> None:
    with pytest.raises(MessageRefused):
        await (await producer.send(THINGS.name, "key", b"x" * (MAX_MESSAGE_BYTES + 1), []))
    values = await send(producer, 3, keys=["key"])
    member = await join()
    await until(lambda: len(member.records) == 3)
    assert member.values == values


async def test_a_large_message_arrives(producer: Producer, join) -> None:
    large = b"x" * (MAX_MESSAGE_BYTES - 10_000)
    await (await producer.send(THINGS.name, "key", large, []))
    member = await join()
    await until(lambda: len(member.records) == 1)
    assert member.values == [large]
