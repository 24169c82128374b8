"""Members of groups on Kafka whose topics are created while they start."""

import asyncio

import pytest

from libs.contracts.topics import events_topic
from libs.eventing import BusUnavailable, KafkaBus, _kafka_readers, create_topics
from tests.support.bus_members import Member

THINGS = events_topic("things", 3, ())


async def test_a_member_that_comes_before_its_topic_is_assigned_all_of_it(kafka: str, topic_prefix: str) -> None:
    member = Member(KafkaBus(kafka, prefix=topic_prefix), "early", [THINGS.name])
    starting = asyncio.create_task(member.start())
    await asyncio.sleep(0.3)
    await create_topics(kafka, topic_prefix, topics=(THINGS,))
    await starting
    assert len(member.assignments[0]) == THINGS.partitions
    await member.stop()


async def test_a_topic_that_stays_away_is_named(kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_readers, "_TOPICS_SECONDS", 0.3)
    member = Member(KafkaBus(kafka, prefix=topic_prefix), "early", [THINGS.name])
    with pytest.raises(BusUnavailable, match=f"{topic_prefix}things-events"):
        await member.start()
    await member.close()
