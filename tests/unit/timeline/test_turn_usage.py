"""The usage in events that end turns."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from libs.contracts.messages import Envelope, PoisonMessage
from libs.contracts.resources.turns import TurnCancelled, TurnCompleted, TurnFailed, TurnStarted
from libs.eventing.bus import Record
from libs.eventing.messages import PayloadReader
from services.timeline.domain.usage import TurnUsage
from services.timeline.entrypoints.log import TimelineEvents
from tests.support.timeline import FakeTimeline

ENVELOPE = Envelope(
    id="event",
    type=TurnCompleted.TYPE,
    source="/aes/runtime",
    subject="turn",
    time="2026-01-02T03:04:05.000006Z",
    correlation_id="label",
    company_id="company",
)
CONTENT = {
    "agent_id": "agent",
    "model": "openai:x",
    "user_id": "ada",
    "key_id": "key",
    "usage": {"input_tokens": 5, "output_tokens": 3, "tool_calls": 2, "seconds": 1.5, "cost": "0.0001"},
}


async def unused(_owner: str, _path: str, _company_id: str) -> bytes:
    raise AssertionError


def usage_of(event_type: str, content: dict[str, Any]) -> TurnUsage | None:
    envelope = replace(ENVELOPE, type=event_type)
    record = Record("runtime-events", 0, 0, "label", orjson.dumps(content), tuple(envelope.headers()))
    item = TimelineEvents(FakeTimeline(), PayloadReader(unused)).read(record)
    return item.event.usage


@pytest.mark.parametrize("event_type", [TurnCompleted.TYPE, TurnFailed.TYPE, TurnCancelled.TYPE])
def test_the_event_that_ends_a_turn_has_its_usage(event_type: str) -> None:
    assert usage_of(event_type, CONTENT) == TurnUsage(
        hour="2026-01-02T03:00:00+00:00",
        user_id="ada",
        key_id="key",
        agent_id="agent",
        model="openai:x",
        input_tokens=5,
        output_tokens=3,
        tool_calls=2,
        seconds=1.5,
        cost="0.0001",
    )


def test_other_events_have_no_usage() -> None:
    assert usage_of(TurnStarted.TYPE, CONTENT) is None


def test_an_event_whose_usage_is_none_is_poison() -> None:
    for content in ({"usage": {"input_tokens": "many"}}, {}):
        with pytest.raises(PoisonMessage, match="usage"):
            usage_of(TurnFailed.TYPE, content)
