"""Finds out a Kafka user's rights by trying: one request for all topics, with a result for each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from libs.contracts.topics import with_dead_letters
from libs.eventing import KafkaConnection
from tests.support.waiting import until

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
    async with _client(kafka) as admin:

        async def answer() -> dict[str, int]:
            response = await admin._send_request(request)
            codes = {topic: parts[0][1] for topic, parts in response.topics}
            return {} if _NOT_YET & set(codes.values()) else codes

        codes = await until(answer, "every topic has its leader", pause=0.1)
    assert codes.keys() == set(_NAMES)
    assert set(codes.values()) <= {_DONE, _NOT_ALLOWED}, codes
    return {topic for topic, code in codes.items() if code == _DONE}


def _message() -> bytes:
    batch = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1000)
    batch.append(0, timestamp=None, key=b"", value=b"{}", headers=[])
    return bytes(batch.build())


@asynccontextmanager
async def _client(kafka: KafkaConnection) -> AsyncIterator[Any]:
    admin = AIOKafkaAdminClient(**kafka.options())
    await admin.start()
    try:
        yield admin
    finally:
        await admin.close()
