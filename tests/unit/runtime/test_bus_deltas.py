"""Deltas on the bus: after which event their text comes, and that this event goes before them."""

import asyncio
from datetime import UTC, datetime
from typing import Any

from libs.contracts.events.runtime import OutputTextDelta, TurnStarted
from libs.eventing import IdentitySigner, OutboxMessage, OutboxSender, Publisher
from services.runtime.adapters.bus_deltas import BusDeltas
from tests.support.fake_producer import FakeProducer
from tests.support.runtime_nodes import SIGNING_KEY, until
from tests.support.runtime_turns import claimed_turn


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


async def test_an_event_that_lingers_goes_before_the_text_that_follows_it() -> None:
    producer, turn = FakeProducer(), claimed_turn()
    sender = OutboxSender(producer, IdentitySigner(SIGNING_KEY), source="/aes/runtime")
    publisher = Publisher(None, sender)  # type: ignore[arg-type]
    deltas = BusDeltas(producer, source="/aes/runtime", send_events=publisher.send_now)
    running = [asyncio.create_task(each.run()) for each in (publisher, deltas)]
    publisher.publish([started(turn.id)], linger=3600.0)
    await asyncio.sleep(0.02)
    assert producer.delivered == []
    delta = OutputTextDelta(session_id="session", turn_id=turn.id, attempt=1, step=1, offset=0, text="Hi")
    deltas.send(turn, delta, 1)
    await until(lambda: len(producer.delivered) == 2)
    assert [(envelope.type, envelope.sequence) for envelope in producer.envelopes] == [
        (TurnStarted.TYPE, 1),
        (OutputTextDelta.TYPE, 1),
    ]
    for task in running:
        task.cancel()
