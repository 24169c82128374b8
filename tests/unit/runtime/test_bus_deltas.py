"""Deltas: after which event their text comes, that this event goes before them, and who is told of them at once."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest

from libs.contracts.envelope import Envelope
from libs.contracts.events.runtime import OutputTextDelta, TurnStarted
from libs.eventing import IdentitySigner, Outbox, OutboxMessage, OutboxSender, Publisher
from services.runtime.adapters import bus_deltas
from services.runtime.adapters.bus_deltas import BusDeltas
from tests.support.fake_producer import FakeProducer
from tests.support.runtime_nodes import SIGNING_KEY
from tests.support.runtime_turns import claimed_turn
from tests.support.waiting import elapse, until

pytestmark = pytest.mark.virtual_time


def started(turn_id: str) -> OutboxMessage:
    event = TurnStarted(session_id="session", turn_id=turn_id, attempt=1, user_message_id="m")
    fields: dict[str, Any] = dict.fromkeys(("causation_id", "traceparent", "identity"))
    fields |= {
        "id": 1,
        "created_at": datetime.now(UTC),
        "event_id": "e",
        "type": event.TYPE,
        "topic": event.TOPIC.name,
        "subject": turn_id,
        "sequence": 1,
        "company_id": "company",
        "correlation_id": "label",
        "payload": event.encode(),
    }
    names = OutboxMessage.__dataclass_fields__
    return OutboxMessage(**{name: fields.get(name) for name in names})


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
async def outbox(producer: FakeProducer) -> AsyncIterator[Outbox]:
    sender = OutboxSender(producer, IdentitySigner(SIGNING_KEY), source="/aes/runtime")
    publisher = Publisher(None, sender)  # type: ignore[arg-type]
    running = asyncio.create_task(publisher.run())
    yield Outbox(None, publisher)  # type: ignore[arg-type]
    running.cancel()


@pytest.fixture
async def deltas(producer: FakeProducer, outbox: Outbox) -> AsyncIterator[BusDeltas]:
    deltas = BusDeltas(producer, outbox, source="/aes/runtime")
    running = asyncio.create_task(deltas.run())
    yield deltas
    running.cancel()


def delta(turn_id: str, text: str = "Hi") -> OutputTextDelta:
    return OutputTextDelta(session_id="session", turn_id=turn_id, attempt=1, step=1, offset=0, text=text)


async def test_an_event_that_lingers_goes_before_the_text_that_follows_it(
    producer: FakeProducer, outbox: Outbox, deltas: BusDeltas
) -> None:
    turn = claimed_turn()
    assert outbox._publisher is not None
    outbox._publisher.publish([started(turn.id)], linger=3600.0)
    await elapse(600)
    assert producer.delivered == []
    deltas.send(turn, delta(turn.id), 1)
    await until(lambda: len(producer.delivered) == 2)
    assert [(envelope.type, envelope.sequence) for envelope in producer.envelopes] == [
        (TurnStarted.TYPE, 1),
        (OutputTextDelta.TYPE, 1),
    ]


async def test_who_listens_has_the_text_at_once_and_the_bus_a_moment_later(
    producer: FakeProducer, outbox: Outbox, deltas: BusDeltas
) -> None:
    turn = claimed_turn()
    told: list[tuple[Envelope, bytes]] = []

    def listen(envelope: Envelope, payload: bytes) -> None:
        told.append((envelope, payload))

    outbox.listeners.add(turn.id, listen)
    for text in ("Hi", " there"):
        deltas.send(turn, delta(turn.id, text), 1)
    assert [orjson.loads(payload)["text"] for _, payload in told] == ["Hi", " there"]
    await elapse(bus_deltas._LINGER_SECONDS * 0.9)
    assert producer.delivered == []
    await elapse(bus_deltas._LINGER_SECONDS * 0.2)
    assert [envelope.id for envelope in producer.envelopes] == [envelope.id for envelope, _ in told]


async def test_text_that_nobody_listens_to_takes_along_what_waits(
    producer: FakeProducer, outbox: Outbox, deltas: BusDeltas
) -> None:
    heard, other = claimed_turn(), claimed_turn()
    outbox.listeners.add(heard.id, lambda *_: None)
    deltas.send(heard, delta(heard.id), 1)
    deltas.send(other, delta(other.id), 1)
    await elapse(bus_deltas._LINGER_SECONDS * 0.1)
    assert [envelope.causation_id for envelope in producer.envelopes] == [heard.id, other.id]
