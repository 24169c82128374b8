"""Users of a broker have the rights that they need and no others."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

from libs.contracts.topics import EVENT_TOPICS, TOPICS, with_dead_letters
from tests.support.kafka_rights import readable, sendable
from tests.support.secured_kafka import SecuredKafka
from tests.support.waiting import WITHIN


@pytest.mark.parametrize("service", ["gateway", "registry", "runtime", "ingestion", "artifacts", "timeline"])
async def test_a_service_sends_and_reads_what_it_has_to_and_nothing_else(broker: SecuredKafka, service: str) -> None:
    given = broker.connection(f"{service}-kafka")

    assert await sendable(given) == {topic.name for topic in with_dead_letters() if service in topic.senders}
    readers = {topic.name: (*topic.consumers, *topic.tailed_by) for topic in TOPICS}
    assert await readable(given) == {topic for topic, services in readers.items() if service in services}


async def test_an_outside_consumer_reads_events_and_does_nothing_else(broker: SecuredKafka) -> None:
    given = broker.connection("outside-consumer")

    assert await sendable(given) == set()
    assert await readable(given) == {topic.name for topic in EVENT_TOPICS}
    consumer = AIOKafkaConsumer("runtime-events", **given.options(), group_id="runtime-commands")
    with pytest.raises(KafkaError, match="Group"):
        async with asyncio.timeout(WITHIN):
            await _join(consumer)


async def _join(consumer: AIOKafkaConsumer) -> None:
    try:
        await consumer.start()
        await consumer.getone()
    finally:
        await consumer.stop()
