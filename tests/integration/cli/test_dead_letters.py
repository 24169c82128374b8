"""`aes dlq` on a real broker."""

import asyncio
import json
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from typer.testing import CliRunner

from cli import dlq as command
from cli.installation import BusAddress
from libs.contracts.timestamps import format_time
from libs.contracts.topics import RUNTIME_EVENTS
from libs.eventing import KafkaBus, KafkaConnection
from libs.eventing.administration import create_topics
from libs.eventing.bus import Record
from libs.eventing.dead_letters import (
    DeadLetters,
    DeadLetterSession,
    ReplayOvertaken,
    dead_letter_topic_named,
    open_dead_letters,
)
from tests.support.waiting import WITHIN, until

DLQ = "runtime-events-artifacts-dlq"
BIG = b'"' + b"x" * (2 * 1024 * 1024 - 600) + b'"'


@pytest.fixture
def address(kafka: str, topic_prefix: str, monkeypatch: pytest.MonkeyPatch) -> BusAddress:
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", kafka)
    monkeypatch.setenv("AES_TOPIC_PREFIX", topic_prefix)
    asyncio.run(create_topics(kafka, topic_prefix, topics=(RUNTIME_EVENTS,)))
    return BusAddress(KafkaConnection(servers=kafka), topic_prefix)


def headers(identifier: str, days: float = 0) -> list[tuple[str, bytes]]:
    made = format_time(datetime.now(UTC) - timedelta(days=days))
    return [("ce_id", identifier.encode()), ("ce_time", made.encode()), ("ce_identity", b"signed.secret")]


async def dead_letter(address: BusAddress, *letters: Callable[[], Record], originals: bool = False) -> None:
    """Put messages aside as a consumer does; with ``originals`` they lie in their topic as well."""
    producer = KafkaBus(address.servers, prefix=address.prefix).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    for make in letters:
        record = make()
        if originals:
            await (await producer.send(record.topic, record.key, record.value, record.headers))
            record = await _find(address, record)
        await DeadLetters(producer, consumer="artifacts").put(record, reason="no such kind", attempts=2)
    await producer.stop()


async def _find(address: BusAddress, record: Record) -> Record:
    (found,) = [read for read in await in_topic(address) if read.value == record.value]
    return Record(record.topic, found.partition, found.offset, record.key, record.value, record.headers)


def message(identifier: str, value: bytes = b"{}", days: float = 0) -> Callable[[], Record]:
    return lambda: Record(RUNTIME_EVENTS.name, 1, 7, "correlation", value, headers(identifier, days))


async def in_topic(address: BusAddress) -> list[Any]:
    """Reads the topic without aborted transactions."""
    partitions = [TopicPartition(address.prefix + RUNTIME_EVENTS.name, n) for n in range(RUNTIME_EVENTS.partitions)]
    found: list[Any] = []
    async with (
        asyncio.timeout(WITHIN),
        AIOKafkaConsumer(bootstrap_servers=address.servers, isolation_level="read_committed") as consumer,
        AIOKafkaConsumer(bootstrap_servers=address.servers) as sees_all,
    ):
        # For those who read what is committed, the broker ends a transaction after it has confirmed its commit.
        ends = await sees_all.end_offsets(partitions)
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while any([ends[partition] > await consumer.position(partition) for partition in partitions]):
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                found += batch
    return found


def reading(address: BusAddress) -> AbstractAsyncContextManager[DeadLetterSession]:
    return open_dead_letters(address.kafka, address.prefix, client_id="test")


def run(*arguments: str, code: int = 0) -> dict[str, Any]:
    result = CliRunner().invoke(command.app, [*arguments, "--json"])
    assert result.exit_code == code, (result.output, result.exception)
    document: dict[str, Any] = json.loads(result.stdout)
    return document


def waiting() -> int:
    (row,) = run("list")["topics"]
    assert row["topic"] == DLQ
    count: int = row["waiting"]
    return count


def test_letters_are_listed_shown_and_replayed_once(address: BusAddress) -> None:
    assert run("list") == {"topics": []}
    asyncio.run(dead_letter(address, message("e0"), message("e1", days=8), message("e2"), message("e3")))
    (row,) = run("list")["topics"]
    assert (row["letters"], row["waiting"], row["consumer"]) == (4, 4, "artifacts")
    assert row["oldest"] <= row["newest"]
    assert [found["id"] for found in run("show", DLQ, "--limit", "3")["letters"]] == ["e1", "e2", "e3"]
    shown = run("show", DLQ, "2", "--payload")
    assert (shown["reason"], shown["attempts"], shown["payload"]) == ("no such kind", 2, "{}")
    assert "secret" not in json.dumps(shown)

    assert run("replay", DLQ, "--offset", "2", "--yes")["letters"] == [{"offset": 2, "replayed": True, "reason": None}]
    assert waiting() == 3
    rest = run("replay", DLQ, "--yes", code=1)["letters"]
    assert [(one["offset"], one["replayed"]) for one in rest] == [(0, True), (1, False), (3, True)]
    assert "7 days" in rest[1]["reason"]
    assert waiting() == 1
    again = run("replay", DLQ, "--offset", "0", "--offset", "2", "--yes", code=1)["letters"]
    assert {one["reason"] for one in again} == {"The message was already replayed."}

    replayed = asyncio.run(in_topic(address))
    assert sorted(dict(found.headers)["ce_id"] for found in replayed) == [b"e0", b"e2", b"e3"]
    assert {found.key for found in replayed} == {b"correlation"}
    assert {name for found in replayed for name, _ in found.headers} == {"ce_id", "ce_time", "ce_identity"}


def test_nothing_is_replayed_unless_confirmed(address: BusAddress) -> None:
    asyncio.run(dead_letter(address, message("e0")))
    result = CliRunner().invoke(command.app, ["replay", DLQ], input="n\n")

    assert result.exit_code == 1
    assert "Replay 1 message from" in result.stderr
    assert waiting() == 1
    assert asyncio.run(in_topic(address)) == []


def test_a_payload_too_large_for_a_letter_is_taken_from_where_it_was_read(address: BusAddress) -> None:
    asyncio.run(dead_letter(address, message("big", BIG), originals=True))
    assert run("show", DLQ, "0")["payload_bytes"] == len(BIG)
    assert run("replay", DLQ, "--yes")["letters"][0]["replayed"]
    found = asyncio.run(in_topic(address))
    assert [(read.value == BIG, dict(read.headers)["ce_id"]) for read in found] == [(True, b"big")] * 2


def test_a_replay_that_breaks_off_or_is_overtaken_leaves_the_letter(
    address: BusAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    asyncio.run(dead_letter(address, message("e0")))
    topic = dead_letter_topic_named(DLQ)

    async def break_off() -> None:
        async with reading(address) as session, session.replaying(topic) as replaying:
            monkeypatch.setattr(replaying._producer, "send_offsets_to_transaction", _fail)
            with pytest.raises(ZeroDivisionError):
                await replaying.send(0)

    async def overtake() -> None:
        async with (
            reading(address) as session,
            session.replaying(topic) as first,
            session.replaying(topic) as second,
        ):
            with pytest.raises(ReplayOvertaken, match="Another replay"):
                await first.send(0)
            assert (await second.send(0)).refusal == ""

    asyncio.run(break_off())
    assert (waiting(), asyncio.run(in_topic(address))) == (1, [])
    asyncio.run(overtake())
    assert (waiting(), len(asyncio.run(in_topic(address)))) == (0, 1)


async def _fail(*_: object) -> None:
    raise ZeroDivisionError
