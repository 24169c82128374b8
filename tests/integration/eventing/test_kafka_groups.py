"""Members of ended processes leave their groups at the word of the others; living ones do not flap."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from libs.contracts.topics import events_topic
from libs.eventing import KafkaBus, KafkaConnection
from libs.eventing._kafka_groups import KafkaGroups
from libs.eventing.administration import create_topics
from libs.persistence import Presence
from libs.service_defaults._consumers import DeadMemberReaper
from tests.support.bus_members import Member
from tests.support.presence import Clock, is_locked, looked, present
from tests.support.waiting import until

THINGS = events_topic("things", 4, ())
GROUP = "things-readers"
PROCESS = """
import asyncio, sys
from libs.eventing import KafkaBus
from tests.support.bus_members import Member

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
    assert process.stdout is not None
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
