"""Users of a broker have the rights that they need and no others."""

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from libs.contracts.topics import EVENT_TOPICS, TOPICS, with_dead_letters
from libs.eventing import KafkaConnection
from tests.support.secured_kafka import SecuredKafka
from tests.support.waiting import WITHIN, until

_DONE, _NOT_ALLOWED = 0, 29
# Unknown, without a leader, or not led here: a topic was made a moment ago.
_NOT_YET = {3, 5, 6}
_NAMES = [topic.name for topic in with_dead_letters()]


async def sendable(kafka: KafkaConnection) -> set[str]:
    """Declared topics that took a message of this user."""
    request = ProduceRequest(None, -1, 10_000, [(name, [(0, _message())]) for name in _NAMES])
    return await _allowed(kafka, request)


async def readable(kafka: KafkaConnection) -> set[str]:
    """Declared topics that gave messages to this user."""
    request = FetchRequest(0, 0, 1_000_000, 0, [(name, [(0, 0, 1000)]) for name in _NAMES])
    return await _allowed(kafka, request)


async def _allowed(kafka: KafkaConnection, request: Any) -> set[str]:
    admin = AIOKafkaAdminClient(**kafka.options())
    await admin.start()

    async def answer() -> dict[str, int]:
        response = await admin._send_request(request)
        codes = {topic: parts[0][1] for topic, parts in response.topics}
        return {} if _NOT_YET & set(codes.values()) else codes

    try:
        codes = await until(answer, "every topic has its leader", pause=0.1)
    finally:
        await admin.close()
    assert codes.keys() == set(_NAMES)
    assert set(codes.values()) <= {_DONE, _NOT_ALLOWED}, codes
    return {topic for topic, code in codes.items() if code == _DONE}


def _message() -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1000)
    batch.append(0, timestamp=None, key=b"", value=b"{}", headers=[])
    return bytes(batch.build())


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
