"""Streams of turns whose events overtake each other, are redelivered or get lost."""

import itertools
import random
from typing import Any

import orjson
import pytest

from libs.contracts.api.sessions import Reply, Usage
from libs.contracts.envelope import Envelope
from libs.contracts.errors import ErrorInfo, ErrorKind
from libs.contracts.events.runtime import (
    OutputTextDelta,
    OutputTextDone,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    TurnFailed,
    TurnRestarted,
    TurnStarted,
)
from libs.contracts.messages import Event
from libs.contracts.timestamps import now_text
from libs.eventing import Received
from services.gateway.domain.turn_stream import TurnStream

IDS: dict[str, Any] = {"session_id": "s", "turn_id": "t"}
STARTED = TurnStarted(**IDS, attempt=1, user_message_id="m")
CALL = ToolCallStarted(**IDS, step=1, call_id="c", name="calculator", arguments={})
CALLED = ToolCallCompleted(**IDS, step=1, call_id="c", name="calculator", output="4")
OTHER_CALL = ToolCallStarted(**IDS, step=1, call_id="d", name="calculator", arguments={})
OTHER_CALLED = ToolCallFailed(**IDS, step=1, call_id="d", name="calculator", reason="no")
FAILED = TurnFailed(**IDS, error=ErrorInfo(type=ErrorKind.MODEL, message="no"))
_numbers = itertools.count()


def text(content: str, *, step: int = 1, offset: int = 0, attempt: int = 1) -> OutputTextDelta:
    return OutputTextDelta(**IDS, attempt=attempt, step=step, offset=offset, text=content)


def done(length: int, *, step: int = 1, attempt: int = 1) -> OutputTextDone:
    return OutputTextDone(**IDS, attempt=attempt, step=step, length=length)


def restarted(resumed_from_step: int, attempt: int = 2) -> TurnRestarted:
    return TurnRestarted(**IDS, attempt=attempt, resumed_from_step=resumed_from_step)


def completed(content: str) -> TurnCompleted:
    response = Reply(content=content, tool_calls=[], citations=[], artifacts=[])
    usage = Usage(input_tokens=1, output_tokens=1, total_tokens=2, model_calls=1)
    return TurnCompleted(
        **IDS, message_id="a", user_message_id="m", response=response, correlation_id="l", usage=usage, config_hash="h"
    )


def received(event: Event, event_id: str | None = None) -> Received:
    envelope = Envelope(
        id=event_id or f"id-{next(_numbers)}",
        type=event.TYPE,
        source="/aes/runtime",
        subject="t",
        time=now_text(),
        correlation_id="label",
        company_id="company",
    )
    return Received(envelope, event.encode())


def shown(*events: Event, from_beginning: bool = True) -> list[tuple[str, Any]]:
    """Kind and essence of what a follower sees."""
    stream = TurnStream(from_beginning=from_beginning)
    found = [each for event in events for each in stream.take(received(event))]
    return [_essence(each) for each in found]


def _essence(each: Received) -> tuple[str, Any]:
    payload = orjson.loads(each.payload)
    match each.envelope.type:
        case OutputTextDelta.TYPE:
            return ("text", (payload["attempt"], payload["step"], payload["offset"], payload["text"]))
        case OutputTextDone.TYPE:
            return ("done", (payload["attempt"], payload["step"], payload["length"]))
        case _:
            return (each.envelope.type.split(".", 2)[2].rsplit(".", 1)[0], payload.get("call_id"))


def test_an_event_that_is_delivered_again_is_shown_once() -> None:
    stream = TurnStream(from_beginning=True)
    arriving: list[tuple[Event, str]] = [(STARTED, "1"), (CALLED, "2"), (STARTED, "1"), (CALLED, "2"), (CALLED, "3")]
    seen = [each.envelope.id for event, key in arriving for each in stream.take(received(event, key))]
    assert seen == ["1", "2", "3"]


def test_text_that_comes_before_the_start_is_shown() -> None:
    assert [kind for kind, _ in shown(text("Hi"), STARTED)] == ["text", "turn.started"]


def test_text_waits_for_the_tool_calls_that_it_rests_on() -> None:
    overtaking = (STARTED, text("so", step=2), CALL, text(" it is", step=2, offset=2), OTHER_CALL, CALLED)
    assert [kind for kind, _ in shown(*overtaking)] == ["turn.started", *["turn.tool_call.started"] * 2,
                                                         "turn.tool_call.completed"]  # fmt: skip
    assert shown(*overtaking, OTHER_CALLED)[-3:] == [
        ("turn.tool_call.failed", "d"),
        ("text", (1, 2, 0, "so")),
        ("text", (1, 2, 2, " it is")),
    ]


def test_who_comes_later_is_not_kept_waiting_for_what_was_before() -> None:
    assert shown(text("so", step=2), from_beginning=False) == [("text", (1, 2, 0, "so"))]


def test_text_of_the_next_attempt_waits_for_the_restart_and_voids_the_old_one() -> None:
    events = (STARTED, text("old"), text("new", attempt=2), text(" text", offset=3), restarted(0), text("er", offset=3))
    assert shown(*events) == [
        ("turn.started", None),
        ("text", (1, 1, 0, "old")),
        ("text", (1, 1, 3, " text")),
        ("turn.restarted", None),
        ("text", (2, 1, 0, "new")),
    ]


def test_a_late_piece_of_an_attempt_that_was_given_up_is_left_out() -> None:
    """Also before the new attempt has said anything."""
    events = (STARTED, text("old"), restarted(0), text(" text", offset=3), text("new", attempt=2))
    assert shown(*events)[2:] == [("turn.restarted", None), ("text", (2, 1, 0, "new"))]


def test_a_resumed_turn_goes_on_after_the_calls_that_were_made() -> None:
    events = (STARTED, CALL, CALLED, restarted(1), text("so", step=2, attempt=2))
    assert shown(*events)[-1] == ("text", (2, 2, 0, "so"))


@pytest.mark.parametrize(
    ("pieces", "filled_in"),
    [
        ((), [("text", (1, 1, 0, "abcdef")), ("done", (1, 1, 6))]),
        ((text("ab"),), [("text", (1, 1, 2, "cdef")), ("done", (1, 1, 6))]),
        ((text("ab"), text("ef", offset=4), done(6)), [("text", (1, 1, 2, "cdef")), ("done", (1, 1, 6))]),
        ((text("abcdef"),), [("done", (1, 1, 6))]),
        ((text("abcdef"), done(6)), []),
    ],
)
def test_text_that_was_lost_comes_before_the_end(pieces: tuple[Event, ...], filled_in: list[Any]) -> None:
    before = shown(STARTED, *pieces)
    assert shown(STARTED, *pieces, completed("abcdef")) == [*before, *filled_in, ("turn.completed", None)]


def test_a_reply_without_text_and_one_that_is_not_what_was_said_add_nothing() -> None:
    assert shown(STARTED, completed("")) == [("turn.started", None), ("turn.completed", None)]
    said = shown(STARTED, text("I would call"), completed("No steps are left."))
    assert [kind for kind, _ in said] == ["turn.started", "text", "turn.completed"]


def test_the_reply_after_tool_calls_is_text_of_a_step_of_its_own() -> None:
    said = shown(STARTED, text("Let me see."), CALL, CALLED, completed("4"))
    assert said[-3:] == [("text", (1, 2, 0, "4")), ("done", (1, 2, 1)), ("turn.completed", None)]


def test_nothing_comes_after_the_end() -> None:
    assert shown(STARTED, CALL, text("held", step=2), FAILED)[-1] == ("turn.failed", None)


def test_however_text_and_events_mix_the_pieces_of_the_last_step_are_the_reply() -> None:
    """Both ways keep their own order; what comes of text after the end is not listened to any more."""
    records: list[Event] = [STARTED, CALL, OTHER_CALL, CALLED, OTHER_CALLED, completed("so it is")]
    pieces: list[Event] = [
        text("I"), text(" see", offset=1), done(5),
        text("so", step=2), text(" it", step=2, offset=2), text(" is", step=2, offset=5), done(8, step=2),
    ]  # fmt: skip
    chance = random.Random(1)
    for _ in range(500):
        arriving = [piece for piece in pieces if chance.random() > 0.1]
        for place, record in zip(sorted(chance.choices(range(len(arriving) + 1), k=len(records))), records,
                                 strict=True):  # fmt: skip
            arriving.insert(place + records.index(record), record)
        seen = shown(*arriving[: arriving.index(records[-1]) + 1])
        assert "".join(piece[3] for kind, piece in seen if kind == "text" and piece[1] == 2) == "so it is"
        order = [kind for kind, essence in seen if not (kind in ("text", "done") and essence[1] == 1)]
        last_call = max(place for place, kind in enumerate(order) if kind.startswith("turn.tool_call"))
        assert all(kind not in ("text", "done") for kind in order[: last_call + 1])
        assert order[-2:] == ["done", "turn.completed"]
