"""Members of groups on Kafka whose topics are created while they start."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer

from libs.contracts.topics import events_topic
from libs.eventing import KafkaBus, _kafka_consumer
from libs.eventing.administration import create_topics
from libs.eventing.bus import BusUnavailable
from tests.support.bus_members import Member
from tests.support.waiting import WITHIN, until

THINGS = events_topic("things", 3, ())


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
