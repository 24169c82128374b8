"""Deltas: after which event their text comes, and that this event goes before them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.resources.turns import OutputTextDelta, TurnStarted
from libs.eventing import IdentitySigner, Outbox, Relay
from libs.eventing.messages import OutboxMessage
from services.runtime.adapters.bus_deltas import BusDeltas
from tests.support.fake_producer import FakeProducer
from tests.support.outbox_table import FakeOutboxTable
from tests.support.runtime_nodes import SIGNING_KEY
from tests.support.runtime_turns import claimed_turn
from tests.support.waiting import elapse

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
    relay = Relay(FakeOutboxTable(), producer, IdentitySigner(SIGNING_KEY), source="/aes/runtime")  # type: ignore[arg-type]
    running = asyncio.create_task(relay.run())
    yield Outbox(None, relay)  # type: ignore[arg-type]
    running.cancel()


@pytest.fixture
async def deltas(producer: FakeProducer, outbox: Outbox) -> AsyncIterator[BusDeltas]:
    deltas = BusDeltas(producer, outbox, source="/aes/runtime")
    running = asyncio.create_task(deltas.run())
    yield deltas
    running.cancel()


def delta(turn_id: str) -> OutputTextDelta:
    return OutputTextDelta(session_id="session", turn_id=turn_id, attempt=1, step=1, offset=0, text="Hi")


async def test_an_event_that_lingers_goes_before_the_text_that_follows_it(
    producer: FakeProducer, outbox: Outbox, deltas: BusDeltas
) -> None:
    turn = claimed_turn()
    outbox.publish([started(turn.id)])
    await elapse(Relay.LINGER_SECONDS / 2)
    assert producer.delivered == []
    deltas.send(turn, delta(turn.id), 1)
    await elapse(Relay.LINGER_SECONDS / 4)
    assert [(envelope.type, envelope.sequence) for envelope in producer.envelopes] == [
        (TurnStarted.TYPE, 1),
        (OutputTextDelta.TYPE, 1),
    ]
