"""What a follower of a turn is shown when events come twice, as they may after a crash."""

from libs.contracts.envelope import Envelope
from libs.contracts.events.runtime import OutputTextDelta, ToolCallCompleted, TurnStarted
from libs.contracts.messages import Event
from libs.contracts.timestamps import now_text
from services.gateway.domain.turn_stream import TurnStream

STARTED = TurnStarted(session_id="s", turn_id="t", attempt=1, user_message_id="m")
CALLED = ToolCallCompleted(session_id="s", turn_id="t", step=1, call_id="c", name="calculator", output="4")


def envelope(event: Event, event_id: str) -> Envelope:
    return Envelope(
        id=event_id,
        type=event.TYPE,
        source="/aes/runtime",
        subject="t",
        time=now_text(),
        correlation_id="label",
        company_id="company",
    )


def test_an_event_that_is_delivered_again_is_shown_once() -> None:
    stream = TurnStream()
    arriving: list[tuple[Event, str]] = [(STARTED, "1"), (CALLED, "2"), (STARTED, "1"), (CALLED, "2"), (CALLED, "3")]
    shown = [event_id for event, event_id in arriving if stream.passes(envelope(event, event_id), event.encode())]
    assert shown == ["1", "2", "3"]


def test_text_that_comes_before_its_start_is_shown() -> None:
    stream = TurnStream()
    text = OutputTextDelta(session_id="s", turn_id="t", attempt=1, step=1, offset=0, text="Hi")
    assert stream.passes(envelope(text, "1"), text.encode())
    assert stream.passes(envelope(STARTED, "2"), STARTED.encode())
