"""Dead letters on a real broker as the gateway lists and replays them, together with the command line."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from typer.testing import CliRunner

from cli import dlq as command
from libs.contracts.errors import Conflict, NotFound
from libs.contracts.identity import Identity, Scope
from libs.contracts.timestamps import format_time, now_text, parse_time
from libs.contracts.topics import RUNTIME_EVENTS
from libs.eventing import KafkaBus, KafkaConnection
from libs.eventing.administration import create_topics
from libs.eventing.bus import Record
from libs.eventing.dead_letters import DeadLetters, open_dead_letters
from services.gateway.use_cases.dead_letters import DeadLetterQuery, OpenDeadLetters, VisibleDeadLetters
from tests.support.waiting import WITHIN, until

DLQ = "runtime-events-artifacts-dlq"
OPERATOR = Identity(company_id="operators", user_id="op", key_id="op", scopes=frozenset(Scope))
COMPANY_SCOPES = frozenset({Scope.COMPANY_READ, Scope.COMPANY_WRITE})
ADA = Identity(company_id="ada-ltd", user_id="ada", key_id="ada", scopes=COMPANY_SCOPES)
BOB = Identity(company_id="bob-ltd", user_id="bob", key_id="bob", scopes=COMPANY_SCOPES)
OLD = "2020-01-01T00:00:00.000000Z"


@pytest.fixture
async def letters(kafka: str, topic_prefix: str) -> OpenDeadLetters:
    await create_topics(kafka, topic_prefix, topics=(RUNTIME_EVENTS,))
    return partial(open_dead_letters, KafkaConnection(servers=kafka), topic_prefix, client_id="test")


async def dead_letter(kafka: str, prefix: str, *of: tuple[str, str, str]) -> None:
    """Puts messages aside as a consumer does: id, company, and when they were made."""
    producer = KafkaBus(kafka, prefix=prefix).producer()
    await producer.start()
    await until(lambda: producer.healthy)
    for identifier, company, made in of:
        headers = [("ce_id", identifier), ("ce_companyid", company), ("ce_time", made), ("ce_identity", "signed")]
        record = Record(RUNTIME_EVENTS.name, 1, 7, "label", b"{}", [(name, text.encode()) for name, text in headers])
        await DeadLetters(producer, consumer="artifacts").put(record, reason="no such kind", attempts=2)
    await producer.stop()


async def sent_again(kafka: str, prefix: str) -> list[bytes]:
    """Ids of the messages in the source topic, without those of aborted transactions."""
    consumer = AIOKafkaConsumer(bootstrap_servers=kafka, isolation_level="read_committed")
    await consumer.start()
    try:
        partitions = [TopicPartition(prefix + RUNTIME_EVENTS.name, n) for n in range(RUNTIME_EVENTS.partitions)]
        consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        ends, found = await consumer.end_offsets(partitions), list[bytes]()
        async with asyncio.timeout(WITHIN):
            while any([ends[each] > await consumer.position(each) for each in partitions]):
                for batch in (await consumer.getmany(timeout_ms=200)).values():
                    found += [dict(record.headers)["ce_id"] for record in batch]
        return found
    finally:
        await consumer.stop()


def lister(letters: OpenDeadLetters) -> Callable[[Identity, DeadLetterQuery], Awaitable[list[str]]]:
    listing = VisibleDeadLetters(letters, lambda: 0.0)

    async def ids(reader: Identity, query: DeadLetterQuery) -> list[str]:
        """Ids of all messages, page by page."""
        found: list[str] = []
        while True:
            page = await listing.page(reader, query)
            found += [each.letter.header("ce_id") or "" for each in page.letters]
            if page.next is None:
                return found
            query = replace(query, after=page.next)

    return ids


async def test_each_company_finds_its_own_letters_page_by_page(
    kafka: str, topic_prefix: str, letters: OpenDeadLetters
) -> None:
    now = now_text()
    made = [(f"e{n}", "ada-ltd" if n % 3 else "bob-ltd", now) for n in range(60)]
    await dead_letter(kafka, topic_prefix, *made)
    ids = lister(letters)

    assert await ids(OPERATOR, DeadLetterQuery(limit=7)) == [f"e{n}" for n in reversed(range(60))]
    assert await ids(BOB, DeadLetterQuery(limit=7)) == [f"e{n}" for n in reversed(range(0, 60, 3))]
    assert len(await ids(ADA, DeadLetterQuery(limit=50))) == 40

    get = VisibleDeadLetters(letters, lambda: 0.0).get
    assert (await get(BOB, f"{DLQ}.3")).letter.value == b"{}"
    for reader, identifier in (
        (ADA, f"{DLQ}.3"),
        (OPERATOR, f"{DLQ}.60"),
        (OPERATOR, "registry-events-timeline-dlq.0"),
    ):
        with pytest.raises(NotFound):
            await get(reader, identifier)


async def test_a_letter_is_sent_once_by_whatever_means(
    kafka: str, topic_prefix: str, letters: OpenDeadLetters, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AES_KAFKA_BOOTSTRAP_SERVERS", kafka)
    monkeypatch.setenv("AES_TOPIC_PREFIX", topic_prefix)
    now = format_time(parse_time(now_text()))
    await dead_letter(kafka, topic_prefix, *((f"e{n}", "ada-ltd", now) for n in range(3)), ("old", "ada-ltd", OLD))
    # Two replicas of the gateway.
    replicas = [VisibleDeadLetters(letters, lambda: 0.0), VisibleDeadLetters(letters, lambda: 0.0)]

    with pytest.raises(NotFound):
        await replicas[0].replay(BOB, f"{DLQ}.1")
    with pytest.raises(Conflict, match="7 days"):
        await replicas[0].replay(ADA, f"{DLQ}.3")
    outcomes = await asyncio.gather(*(replica.replay(ADA, f"{DLQ}.1") for replica in replicas))
    assert sorted(each.repeated for each in outcomes) == [False, True]

    by_command = await asyncio.to_thread(CliRunner().invoke, command.app, ["replay", DLQ, "--yes", "--json"])
    found = {each["offset"]: each["replayed"] for each in json.loads(by_command.stdout)["letters"]}
    assert found == {0: True, 2: True, 3: False}
    assert (await replicas[1].replay(OPERATOR, f"{DLQ}.0")).repeated is True

    assert sorted(await sent_again(kafka, topic_prefix)) == [b"e0", b"e1", b"e2"]
    assert await lister(letters)(ADA, DeadLetterQuery(replayed=False)) == ["old"]
