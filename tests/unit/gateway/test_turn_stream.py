"""Streams of turns whose events overtake each other, come twice or get lost, and go on anywhere."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorInfo, ErrorKind, InvalidRequest
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope, Event, Received
from libs.contracts.replies import Reply, Usage
from libs.contracts.resources.turns import (
    CitationAdded,
    OutputInvalid,
    OutputTextDelta,
    OutputTextDone,
    ToolCallCompleted,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnRestarted,
    TurnStarted,
)
from libs.contracts.timestamps import now_text
from services.gateway.domain.turn_stream import START, Cursor, StreamedEvent, TurnStream

IDS: dict[str, Any] = {"session_id": "s", "turn_id": "t"}
STARTED = TurnStarted(**IDS, attempt=1, user_message_id="m")
CALL = ToolCallStarted(**IDS, step=1, call_id="c", name="calculator", arguments={}, text_length=5)
CALLED = ToolCallCompleted(**IDS, step=1, call_id="c", name="calculator", output="4")
OTHER_CALL = ToolCallStarted(**IDS, step=1, call_id="d", name="calculator", arguments={})
FAILED = TurnFailed(**IDS, error=ErrorInfo(type=ErrorKind.MODEL, message="no"))
CITED = CitationAdded(**IDS, citation=Citation(passage="p"))


def text(content: str, *, step: int = 1, offset: int = 0, attempt: int = 1) -> OutputTextDelta:
    return OutputTextDelta(**IDS, attempt=attempt, step=step, offset=offset, text=content)


def done(length: int, *, step: int = 1, attempt: int = 1) -> OutputTextDone:
    return OutputTextDone(**IDS, attempt=attempt, step=step, length=length)


def restarted(resumed_from_step: int, attempt: int = 2) -> TurnRestarted:
    return TurnRestarted(**IDS, attempt=attempt, resumed_from_step=resumed_from_step)


def completed(content: str) -> TurnCompleted:
    response = Reply(content=content, tool_calls=[], citations=[], artifacts=[])
    usage = Usage(input_tokens=1, output_tokens=1, model_calls=1)
    return TurnCompleted(
        **IDS, message_id="a", user_message_id="m", response=response, correlation_id="l", usage=usage, config_hash="h"
    )


def received(event: Event, sequence: int) -> Received:
    """``sequence``: the event's own, or that of the event that a delta follows."""
    envelope = Envelope(
        id=new_id(),
        type=event.TYPE,
        source="/aes/runtime",
        subject="t",
        time=now_text(),
        correlation_id="label",
        company_id="company",
        sequence=sequence,
    )
    return Received(envelope, event.encode())


def take(stream: TurnStream, *events: tuple[int, Event]) -> list[tuple[str, str]]:
    """Ids and essence of what is sent after these have arrived."""
    return essence([shown for sequence, event in events for shown in stream.take(received(event, sequence))])


def essence(shown: Sequence[StreamedEvent]) -> list[tuple[str, str]]:
    return [(str(each.id), _essence(each)) for each in shown]


def _essence(each: StreamedEvent) -> str:
    payload = orjson.loads(each.payload)
    match each.type:
        case OutputTextDelta.TYPE:
            return f"{payload['offset']}:{payload['text']}"
        case OutputTextDone.TYPE:
            return f"done {payload['length']}"
        case _:
            return each.type.split(".", 3)[3].removesuffix(".v1")


PLAIN: list[tuple[int, Event]] = [
    (1, STARTED), (1, text("ab")), (1, text("cdef", offset=2)), (1, done(6)), (2, completed("abcdef")),
]  # fmt: skip
SHOWN = [
    ("1.1.1.0", "started"), ("1.1.1.2", "0:ab"), ("1.1.1.6", "2:cdef"), ("1.1.1.6.d", "done 6"),
    ("2.1.1.0", "completed"),
]  # fmt: skip


def test_events_and_text_are_sent_as_they_come() -> None:
    stream = TurnStream()
    assert take(stream, *PLAIN) == SHOWN
    assert stream.has_ended
    assert take(stream, (1, text("late"))) == []


def test_text_that_was_lost_before_tool_calls_is_the_recorded_one() -> None:
    stream = TurnStream()
    take(stream, (1, STARTED), (1, text("I ")), (2, CALL))
    shown = stream.take_history((), {1: "I see"}, 2, is_all=False)
    assert essence(shown) == [("1.1.1.5", "2:see"), ("1.1.1.5.d", "done 5"), ("2.1.2.0", "tool_call.started")]
    gone = TurnStream()
    take(gone, (1, STARTED), (1, text("I ")), (2, CALL))
    assert [kind for _, kind in essence(gone.take_history((), {}, 2, is_all=False))] == ["tool_call.started"]


def test_events_that_are_kept_nowhere_are_passed_over() -> None:
    stream = TurnStream()
    shown = stream.take_history([received(completed("all"), 7)], {}, 7, is_all=True)
    assert essence(shown) == [("6.1.1.3", "0:all"), ("6.1.1.3.d", "done 3"), ("7.1.1.0", "completed")]


def test_cursors_are_texts_and_growing_numbers() -> None:
    cursors = [START, Cursor(1, 1, 1, 0), Cursor(1, 1, 1, 8_000_000), Cursor(1, 1, 1, 8_000_000, True), Cursor(2, 1, 2)]
    assert [Cursor.parse(str(cursor)) for cursor in cursors] == cursors
    numbers = [cursor.number for cursor in cursors]
    assert numbers == sorted(set(numbers))


@pytest.mark.parametrize(
    "given", ["", "1", "1.1.1", "1.1.1.1.", "1.1.1.1.x", "-1.1.1.1", "1.1.1.1\n", "1.1.1.1 ", "1.0.1.1", "1.1.0.1"]
)
def test_any_other_text_is_refused(given: str) -> None:
    with pytest.raises(InvalidRequest):
        Cursor.parse(given)


def test_an_answer_that_was_refused_is_shown_whole_before_the_next_one() -> None:
    refused = OutputInvalid(**IDS, step=1, problems=["price: missing"], text_length=5)
    events: list[tuple[int, Event]] = [
        (1, STARTED), (1, text("I see")), (2, text("so", step=2)), (2, refused), (3, completed("so")),
    ]  # fmt: skip
    shown = take(TurnStream(), *events)
    assert [name for _, name in shown] == [name for _, name in take(TurnStream(), *sorted(events, key=_place))]
    assert [str(each.id) for each in _all(*events)][-1] == "3.1.2.0"
    lost = TurnStream()
    assert len(take(lost, (1, STARTED), (2, refused))) == 1
    assert [each.type for each in lost.take_history((), {1: "I see"}, 2, is_all=False)] == [
        OutputTextDelta.TYPE, OutputTextDone.TYPE, OutputInvalid.TYPE,
    ]  # fmt: skip
    assert lost.at.step == 2


def _place(event: tuple[int, Event]) -> int:
    return event[0]


def _all(*events: tuple[int, Event]) -> list[StreamedEvent]:
    stream = TurnStream()
    return [each for sequence, event in events for each in stream.take(received(event, sequence))]
