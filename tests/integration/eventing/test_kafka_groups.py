"""Groups of consumers: members of ended processes leave at the word of the others; living ones do not flap."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndMetadata

from libs.contracts.topics import RUNTIME_COMMANDS, events_topic
from libs.eventing import KafkaBus, KafkaConnection, _kafka_consumer
from libs.eventing._kafka_groups import KafkaGroups
from libs.eventing.administration import create_topics
from libs.eventing.bus import BusUnavailable
from libs.eventing.lag import read_consumer_lag
from libs.persistence import Presence
from libs.service_defaults._consumers import DeadMemberReaper
from tests.integration.eventing.bus_members import Member
from tests.support.presence import Clock, is_locked, looked, present
from tests.support.waiting import WITHIN, until

THINGS = events_topic("things", 4, ())
GROUP = "things-readers"
PROCESS = """
import asyncio, sys
from libs.eventing import KafkaBus
from tests.integration.eventing.bus_members import Member

async def main():
    servers, prefix, process, group, topic = sys.argv[1:]
    member = Member(KafkaBus(servers, prefix=prefix, process=int(process)), group, [topic])
    await member.start()
    print(len(member.held), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
async def topics(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(THINGS,))


def bus(kafka: str, prefix: str, process: int) -> KafkaBus:
    return KafkaBus(kafka, prefix=prefix, process=process)


@pytest.mark.failover("partitions of a killed consumer")
async def test_a_killed_process_is_taken_out_and_its_partitions_are_shared(
    topics: None, kafka: str, topic_prefix: str
) -> None:
    member = await Member(bus(kafka, topic_prefix, 1), GROUP, [THINGS.name]).start()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROCESS, kafka, topic_prefix, "2", GROUP, THINGS.name), stdout=asyncio.subprocess.PIPE
    )
    await process.stdout.readline()
    await until(lambda: len(member.held) == 2)
    groups = bus(kafka, topic_prefix, 1).groups()
    asked: list[set[int]] = []

    def gone(processes: object) -> set[int]:
        asked.append(set(processes))  # type: ignore[call-overload]
        return {2}

    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert await groups.expel([GROUP], gone) == 1
    assert asked == [{1, 2}]
    # The group does not know it any more, though its session has not ended.
    assert await groups.expel([GROUP], gone) == 0
    assert asked[1] == {1}
    await until(lambda: len(member.held) == THINGS.partitions)
    await member.stop()


async def test_a_member_that_is_taken_out_by_mistake_joins_again(topics: None, kafka: str, topic_prefix: str) -> None:
    member = await Member(bus(kafka, topic_prefix, 1), GROUP, [THINGS.name]).start()
    assert await bus(kafka, topic_prefix, 2).groups().expel([GROUP], lambda _: {1}) == 1
    await until(lambda: len(member.assignments) == 2)
    assert len(member.held) == THINGS.partitions
    await member.stop()


async def test_members_of_other_kinds_and_groups_without_members_are_left_alone(
    topics: None, kafka: str, topic_prefix: str
) -> None:
    """So are those of the version before, which tell no number of their process."""
    member = await Member(KafkaBus(kafka, prefix=topic_prefix), GROUP, [THINGS.name]).start()
    groups = KafkaGroups(KafkaConnection.of(kafka), prefix=topic_prefix, client_id="test")
    assert await groups.expel([GROUP, "nobody"], lambda processes: set(processes)) == 0
    assert member.revocations == [frozenset()]
    await member.stop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def presence(database_url: str, clock: Clock) -> AsyncIterator[Presence]:
    async with present(database_url, name="observer", clock=clock) as presence:
        yield presence


async def test_the_reaper_removes_members_of_dead_processes(
    topics: None, kafka: str, topic_prefix: str, database_url: str, presence: Presence, clock: Clock
) -> None:
    reaper = DeadMemberReaper(bus(kafka, topic_prefix, presence.number), presence)
    reaper.watch(GROUP)
    running = asyncio.create_task(reaper.run())
    async with present(database_url) as leaver:
        member = await Member(bus(kafka, topic_prefix, leaver.number), GROUP, [THINGS.name]).start()
        # Whoever was never seen cannot be missed.
        await looked(database_url)
    await until(lambda: not is_locked(database_url, leaver.number))
    await looked(database_url)
    clock.now += 1.0
    # It lives, and so joins again: that it had to is what shows that it was taken out.
    await until(lambda: len(member.assignments) >= 2)
    await member.stop()
    running.cancel()
    await asyncio.wait({running})


async def test_a_member_that_comes_before_its_topic_is_assigned_all_of_it(
    kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_kafka_consumer, "_TOPICS_SECONDS", WITHIN)
    member = Member(KafkaBus(kafka, prefix=topic_prefix), "early", [THINGS.name])
    looked = asyncio.Event()
    topics = AIOKafkaConsumer.topics

    async def look(client: AIOKafkaConsumer) -> set[str]:
        found = await topics(client)
        looked.set()
        return found

    monkeypatch.setattr(AIOKafkaConsumer, "topics", look)
    starting = asyncio.create_task(member.start())
    await until(looked.is_set)
    await create_topics(kafka, topic_prefix, topics=(THINGS,))
    await starting
    assert len(member.assignments[0]) == THINGS.partitions
    await member.stop()


async def test_a_topic_that_stays_away_is_named(kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_consumer, "_TOPICS_SECONDS", 0.3)
    member = Member(KafkaBus(kafka, prefix=topic_prefix), "early", [THINGS.name])
    with pytest.raises(BusUnavailable, match=f"{topic_prefix}things-events"):
        await member.start()
    await member.close()


async def test_lag_is_what_is_not_committed_yet(kafka: str, topic_prefix: str) -> None:
    await create_topics(kafka, topic_prefix, topics=(RUNTIME_COMMANDS,))
    producer = KafkaBus(kafka, prefix=topic_prefix).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    for _ in range(5):
        await (await producer.send(RUNTIME_COMMANDS.name, "one key", b"{}", []))
    await producer.stop()
    connection = KafkaConnection(servers=kafka)
    assert await read_consumer_lag(connection, topic_prefix, client_id="test") == []

    partition = await _commit(kafka, topic_prefix, "runtime-commands", behind=2)
    await _commit(kafka, topic_prefix, "somebody-else", behind=0)

    [found] = await read_consumer_lag(connection, topic_prefix, client_id="test")
    assert (found.group, found.topic, found.lag, found.members) == ("runtime-commands", "runtime-commands", 2, 0)
    assert len(found.partitions) == RUNTIME_COMMANDS.partitions
    by_number = {each.partition: each for each in found.partitions}
    assert (by_number[partition].committed, by_number[partition].end) == (3, 5)
    assert {each.committed for number, each in by_number.items() if number != partition} == {None}


async def _commit(kafka: str, prefix: str, group: str, *, behind: int) -> int:
    """Commits as a member of the group would, and returns the partition that has the messages."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, group_id=prefix + group, enable_auto_commit=False)
    await consumer.start()
    try:
        name = prefix + RUNTIME_COMMANDS.name
        every = [TopicPartition(name, number) for number in range(RUNTIME_COMMANDS.partitions)]
        consumer.assign(every)
        ends = await consumer.end_offsets(every)
        [partition] = [each for each, end in ends.items() if end]
        await consumer.commit({partition: OffsetAndMetadata(ends[partition] - behind, "")})
        return int(partition.partition)
    finally:
        await consumer.stop()
