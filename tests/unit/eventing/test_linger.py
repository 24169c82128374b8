"""Recorded messages linger for others to travel with."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.resources.sessions import CreateSession
from libs.contracts.resources.turns import TurnCompleted, TurnStarted
from libs.eventing import IdentitySigner, Outbox, Relay
from libs.eventing.messages import OutboxMessage
from tests.support.fake_producer import FakeProducer
from tests.support.outbox_table import FakeOutboxTable
from tests.support.waiting import elapse

pytestmark = pytest.mark.virtual_time

[CREATED] = (outcome.TYPE for outcome in CreateSession.OUTCOMES)


def recorded(event_type: str, number: int) -> OutboxMessage:
    given: dict[str, Any] = dict.fromkeys(("traceparent", "identity", "owner_id", "causation_id"))
    given |= {
        "type": event_type,
        "topic": "runtime-events",
        "subject": f"s{number}",
        "company_id": "c",
        "payload": b"{}",
    }
    given |= {"payload": b"{}", "id": number, "event_id": f"e{number}", "created_at": datetime.now(UTC), "sequence": 1}
    return OutboxMessage(correlation_id="label", **given)


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
async def outbox(producer: FakeProducer) -> AsyncIterator[Outbox]:
    relay = Relay(FakeOutboxTable(), producer, IdentitySigner("k" * 32), source="/aes/runtime")  # type: ignore[arg-type]
    running = asyncio.create_task(relay.run())
    yield Outbox(None, relay)  # type: ignore[arg-type]
    running.cancel()


def sent(producer: FakeProducer) -> list[str]:
    """The ids of the messages that went out."""
    return [envelope.id for envelope in producer.envelopes]


async def test_what_is_no_outcome_waits_a_moment_for_others(outbox: Outbox, producer: FakeProducer) -> None:
    outbox.publish([recorded(TurnStarted.TYPE, 1)])
    await elapse(Relay.LINGER_SECONDS * 0.9)
    outbox.publish([recorded(TurnStarted.TYPE, 2)])
    assert sent(producer) == []
    await elapse(Relay.LINGER_SECONDS * 0.2)
    assert sent(producer) == ["e1", "e2"], "the second one does not begin the wait anew"
    outbox.publish([recorded(TurnStarted.TYPE, 3)])
    await elapse(Relay.LINGER_SECONDS * 0.9)
    assert sent(producer) == ["e1", "e2"]
    await elapse(Relay.LINGER_SECONDS * 0.2)
    assert sent(producer) == ["e1", "e2", "e3"]


@pytest.mark.parametrize("outcome", [TurnCompleted.TYPE, CREATED])
async def test_an_outcome_goes_at_once_and_takes_along_what_waits(
    outbox: Outbox, producer: FakeProducer, outcome: str
) -> None:
    outbox.publish([recorded(TurnStarted.TYPE, 1)])
    outbox.publish([recorded(outcome, 2), recorded(TurnStarted.TYPE, 3)])
    await elapse(Relay.LINGER_SECONDS * 0.1)
    assert sent(producer) == ["e1", "e2", "e3"]


async def test_nothing_is_sent_where_nothing_was_recorded(outbox: Outbox, producer: FakeProducer) -> None:
    outbox.publish([])
    await elapse(60)
    assert sent(producer) == []
