"""Recorded messages linger for others to travel with."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from libs.contracts.commands.runtime import CreateSession
from libs.contracts.envelope import Envelope
from libs.contracts.events.runtime import TurnCompleted, TurnStarted
from libs.eventing import IdentitySigner, Outbox, OutboxMessage, OutboxSender, Publisher
from libs.eventing import _outbox as recording
from tests.support.fake_producer import FakeProducer
from tests.support.waiting import elapse, until

pytestmark = pytest.mark.virtual_time

_FOREVER = 3600.0
[CREATED] = (outcome.TYPE for outcome in CreateSession.OUTCOMES)


def recorded(event_type: str, number: int, command_id: str | None = None) -> OutboxMessage:
    given: dict[str, Any] = dict.fromkeys(("traceparent", "identity", "owner_id"))
    given |= {
        "type": event_type,
        "topic": "runtime-events",
        "subject": f"s{number}",
        "company_id": "c",
        "payload": b"{}",
    }
    given |= {"payload": b"{}", "id": number, "event_id": f"e{number}", "created_at": datetime.now(UTC), "sequence": 1}
    return OutboxMessage(correlation_id="label", causation_id=command_id, **given)


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
async def outbox(producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Outbox]:
    for name in ("LINGER_SECONDS", "KNOWN_LINGER_SECONDS"):
        monkeypatch.setattr(recording, name, _FOREVER)
    publisher = Publisher(None, OutboxSender(producer, IdentitySigner("k" * 32), source="/aes/runtime"))  # type: ignore[arg-type]
    running = asyncio.create_task(publisher.run())
    yield Outbox(None, publisher)  # type: ignore[arg-type]
    running.cancel()


async def sent(producer: FakeProducer, count: int) -> list[str]:
    """The ids of the messages that went out, as soon as there are so many."""
    await until(lambda: len(producer.envelopes) >= count, within=1)
    return [envelope.id for envelope in producer.envelopes]


def ignore(_envelope: Envelope, _payload: bytes) -> None:
    return


async def test_what_was_heard_lingers_until_something_else_does_not(outbox: Outbox, producer: FakeProducer) -> None:
    told: list[str] = []
    outbox.listeners.add("turn", lambda envelope, _: told.append(envelope.id))
    outbox.publish([recorded(TurnStarted.TYPE, 1, "turn")])
    outbox.publish([recorded(TurnCompleted.TYPE, 2, "turn")])
    assert told == ["e1", "e2"], "at once, in the order of the commits"
    await elapse(60)
    assert producer.envelopes == []
    outbox.publish([recorded(TurnCompleted.TYPE, 3, "other")])
    assert await sent(producer, 3) == ["e1", "e2", "e3"]


async def test_what_was_heard_goes_with_what_may_linger_less(
    outbox: Outbox, producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "LINGER_SECONDS", 0.001)
    outbox.listeners.add("turn", ignore)
    outbox.publish([recorded(TurnStarted.TYPE, 1, "turn")])
    await elapse(60)
    assert producer.envelopes == []
    outbox.publish([recorded(TurnStarted.TYPE, 2, "other")])
    assert await sent(producer, 2) == ["e1", "e2"]


async def test_an_outcome_beside_one_that_was_heard_does_not_linger(outbox: Outbox, producer: FakeProducer) -> None:
    outbox.listeners.add("creation", ignore)
    outbox.publish([recorded(CREATED, 1, "other"), recorded(CREATED, 2, "creation")])
    assert await sent(producer, 2) == ["e1", "e2"]


async def test_what_nobody_listens_to_any_more_does_not_linger(outbox: Outbox, producer: FakeProducer) -> None:
    outbox.listeners.add("creation", ignore)
    outbox.listeners.remove("creation", ignore)
    outbox.publish([recorded(CREATED, 1, "creation")])
    assert await sent(producer, 1) == ["e1"]
