"""The producer's client is replaced when it is spent, and not because of a topic without rights."""

import asyncio
from typing import Any

import pytest
from aiokafka.errors import KafkaError, OutOfOrderSequenceNumber, TopicAuthorizationFailedError

from libs.eventing import KafkaBus, _kafka_producer
from libs.eventing._kafka_connection import BrokerArrival
from libs.eventing.bus import BusUnavailable, Producer
from tests.support.waiting import until


class Client:
    """An AIOKafkaProducer that refuses what goes to ``closed``, at once or when the broker has answered."""

    made: int
    refusal: type[KafkaError]
    at_once: bool

    def __init__(self, **_settings: Any) -> None:
        type(self).made += 1

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def send(self, topic: str, _value: bytes, **_: Any) -> asyncio.Future[None]:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if topic != "closed":
            answer.set_result(None)
        elif self.at_once:
            raise self.refusal()
        else:
            answer.set_exception(self.refusal())
        return answer


@pytest.fixture(params=[True, False], ids=["at once", "by the broker"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Client]:
    monkeypatch.setattr(Client, "made", 0, raising=False)
    monkeypatch.setattr(Client, "at_once", request.param, raising=False)
    monkeypatch.setattr(_kafka_producer, "AIOKafkaProducer", Client)
    monkeypatch.setattr(BrokerArrival, "wait", _arrived)
    return Client


async def _arrived(_: BrokerArrival) -> None: ...


async def started() -> Producer:
    producer = KafkaBus("127.0.0.1:9", prefix="").producer()
    await producer.start()
    await until(lambda: producer.healthy)
    return producer


async def refused(producer: Producer) -> None:
    with pytest.raises(BusUnavailable):
        await (await producer.send("closed", "key", b"value", []))


async def test_a_topic_without_rights_holds_up_no_other(client: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "refusal", TopicAuthorizationFailedError, raising=False)
    producer = await started()
    for _ in range(3):
        await refused(producer)
        await (await producer.send("open", "key", b"value", []))
    assert client.made == 1
    await producer.stop()


async def test_a_spent_client_is_replaced(client: type[Client], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "refusal", OutOfOrderSequenceNumber, raising=False)
    producer = await started()
    await refused(producer)
    await until(lambda: client.made == 2 and producer.healthy)
    await (await producer.send("open", "key", b"value", []))
    await producer.stop()
