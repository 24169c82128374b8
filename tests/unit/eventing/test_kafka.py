"""Kafka's client: settings, the first connections, groups, commits, and its producer."""

import asyncio
import gc
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    KafkaError,
    NotCoordinatorForGroupError,
    OutOfOrderSequenceNumber,
    TopicAuthorizationFailedError,
)
from pydantic import ValidationError

from deploy.local.ports import choose_free
from libs.eventing import KafkaBus, KafkaSettings, _kafka_groups, _kafka_producer
from libs.eventing._kafka_connection import BrokerArrival, KafkaConnection
from libs.eventing._kafka_groups import KafkaGroups
from libs.eventing.administration import Replication
from libs.eventing.bus import BusUnavailable, Partition, Producer
from tests.support.certificates import make_certificates
from tests.support.waiting import WITHIN, until

SECRET = "hunter2-and-more"


def read(monkeypatch: pytest.MonkeyPatch, **given: str) -> KafkaConnection:
    for name, value in given.items():
        monkeypatch.setenv(f"AES_KAFKA_{name}", value)
    return KafkaSettings().kafka()


def test_an_address_alone_is_passed_to_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = read(monkeypatch, BOOTSTRAP_SERVERS="a:1,b:2")

    assert connection.options() == KafkaConnection.of("a:1,b:2").options() == {"bootstrap_servers": "a:1,b:2"}


def test_clients_get_their_user_and_the_trusted_authorities(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    connection = read(
        monkeypatch,
        SECURITY_PROTOCOL="SASL_SSL",
        USERNAME="runtime",
        PASSWORD=SECRET,
        CA_FILE=str(made.ca_file),
        CERTIFICATE_FILE=str(made.client_certificate),
        KEY_FILE=str(made.client_key),
    )

    options = connection.options()
    assert (options["security_protocol"], options["sasl_mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (options["sasl_plain_username"], options["sasl_plain_password"]) == ("runtime", SECRET)
    assert options["ssl_context"].check_hostname
    assert SECRET not in repr(connection)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"SECURITY_PROTOCOL": "sasl_ssl", "PASSWORD": SECRET}, "AES_KAFKA_USERNAME is required"),
        ({"SECURITY_PROTOCOL": "sasl_plaintext", "USERNAME": "u"}, "AES_KAFKA_PASSWORD is required"),
        (
            {"USERNAME": "u", "PASSWORD": SECRET},
            "AES_KAFKA_USERNAME is set, but",
        ),
        ({"SECURITY_PROTOCOL": "ssl", "PASSWORD": SECRET}, "AES_KAFKA_PASSWORD is set, but"),
        ({"CA_FILE": "/ca.pem"}, "AES_KAFKA_CA_FILE is set, but"),
        ({"SECURITY_PROTOCOL": "ssl", "CA_FILE": "/nowhere/ca.pem"}, "AES_KAFKA_CA_FILE: can't be read as PEM"),
        ({"SECURITY_PROTOCOL": "ssl", "KEY_FILE": "/k.pem"}, "AES_KAFKA_CERTIFICATE_FILE and AES_KAFKA_KEY_FILE"),
        ({"SECURITY_PROTOCOL": "tls"}, "AES_KAFKA_SECURITY_PROTOCOL"),
        ({"SASL_MECHANISM": "GSSAPI"}, "AES_KAFKA_SASL_MECHANISM"),
    ],
)
def test_what_does_not_go_together_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], told: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        read(monkeypatch, **given)

    (error,) = refused.value.errors()
    assert told in ": ".join([*map(str, error["loc"]), error["msg"]])
    assert SECRET not in str(refused.value)


def test_one_replica_less_than_all_has_to_be_in_sync() -> None:
    assert [Replication.of(n).in_sync for n in (1, 2, 3, 5)] == [1, 1, 2, 4]
    assert Replication.of(3, 1) == Replication(3, 1)
    with pytest.raises(ValueError, match="must be from 1 to 2, not 3"):
        Replication.of(2, 3)


class ClientOfAnEmptyCluster:
    def __init__(self, **_: object) -> None:
        self.closed = False

    async def bootstrap(self) -> None: ...

    def get_random_node(self) -> None: ...

    async def close(self) -> None:
        self.closed = True


async def test_a_cluster_without_a_broker_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_kafka_groups, "AIOKafkaClient", ClientOfAnEmptyCluster)
    groups = KafkaGroups(KafkaConnection(servers="127.0.0.1:1"), prefix="", client_id="test")
    with pytest.raises(BusUnavailable, match="no broker yet"):
        await groups.expel(["readers"], lambda processes: processes)


class Coordinator:
    """aiokafka's way to commit: the request goes on when its caller is cancelled."""

    def __init__(self) -> None:
        self.answer = asyncio.Event()
        self.answered = asyncio.Event()

    def assignment(self) -> set[TopicPartition]:
        return {TopicPartition("things", 0)}

    async def commit(self, _offsets: dict[TopicPartition, int]) -> None:
        await asyncio.shield(self._do_commit_offsets())

    async def _do_commit_offsets(self) -> None:
        await self.answer.wait()
        self.answered.set()
        raise NotCoordinatorForGroupError("stopped")


async def test_a_commit_that_was_given_up_fails_silently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("libs.eventing._kafka_consumer._COMMIT_SECONDS", 0.01)
    logged: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))
    consumer = KafkaBus("127.0.0.1:9").consumer("group", ["things"], None)  # type: ignore[arg-type]
    client, coordinator = consumer._consumer, Coordinator()
    monkeypatch.setattr(consumer, "_consumer", coordinator)

    with pytest.raises(BusUnavailable):
        await consumer.commit({Partition("things", 0): 1})
    coordinator.answer.set()
    await coordinator.answered.wait()
    await asyncio.sleep(0)
    gc.collect()

    assert logged == []
    await client.stop()


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


async def test_connections_wait_for_a_broker_that_listens() -> None:
    port = choose_free()
    # The first of the servers never comes.
    arrival = BrokerArrival(KafkaConnection(servers=f"127.0.0.1:1, 127.0.0.1:{port}"), seconds=WITHIN)
    asked = asyncio.Event()

    async def refused() -> bool:
        asked.set()
        return False

    listens, arrival._listens = arrival._listens, refused  # type: ignore[method-assign]
    waiting = [asyncio.create_task(arrival.wait()) for _ in range(2)]
    await asked.wait()
    assert not any(each.done() for each in waiting)

    arrival._listens = listens  # type: ignore[method-assign]
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", port):
        await asyncio.gather(*waiting)


async def test_a_broker_that_stays_away_holds_connections_back_once() -> None:
    arrival = BrokerArrival(KafkaConnection(servers="127.0.0.1:1"), seconds=0)
    await arrival.wait()
    looked: list[bool] = []

    async def listens() -> bool:
        looked.append(True)
        return False

    arrival._listens = listens  # type: ignore[method-assign]
    await arrival.wait()
    assert not looked
