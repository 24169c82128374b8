"""The producer after a refusal of the broker's own."""

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from libs.eventing import KafkaBus
from libs.eventing.bus import BusUnavailable, MessageRefused
from tests.integration.eventing.bus_members import Member
from tests.support.waiting import until


async def test_what_the_broker_refuses_does_not_block_what_follows(kafka: str, topic_prefix: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    await admin.create_topics([NewTopic(topic_prefix + "narrow", 1, 1, topic_configs={"max.message.bytes": "1000"})])
    await admin.close()
    bus = KafkaBus(kafka, prefix=topic_prefix)
    producer = bus.producer()
    await producer.start()
    await until(lambda: producer.healthy)

    await (await producer.send("narrow", "key", b"first", []))
    with pytest.raises(MessageRefused):
        await (await producer.send("narrow", "key", b"x" * 5000, []))

    async def sent() -> bool:
        try:
            await (await producer.send("narrow", "key", b"second", []))
        except BusUnavailable:
            return False
        return True

    await until(sent, pause=0.05)
    assert producer.healthy

    member = await Member(bus, "readers", ["narrow"]).start()
    await until(lambda: len(member.records) == 2)
    assert member.values == [b"first", b"second"]
    await member.stop()
    await producer.stop()
