"""The order of a session's messages, and the places after which it goes on."""

import random
from dataclasses import replace
from typing import Any

import orjson
import pytest

from libs.contracts.errors import ValidationFailed
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope, Received
from libs.contracts.timestamps import now_text
from services.gateway.domain.session_stream import SessionCursor, SessionMessage, SessionStream
from services.gateway.domain.timeline import TimelineEvent
from tests.support.seeds import seeds
from tests.support.timeline import COMPANY, event

SESSION, ONE, TWO = new_id(), new_id(), new_id()
ANSWER = "Hello, world."


class Session:
    """A session: the log of its events, and the texts of its turns between them."""

    def __init__(self) -> None:
        self.log: list[TimelineEvent] = []
        self.wire: list[TimelineEvent | Received] = []

    def other(self, kind: str) -> None:
        self._store(event(type=kind, session_id=SESSION, subject="artifact"))

    def turn(self, turn: str, kind: str, sequence: int, **data: Any) -> None:
        payload = {"session_id": SESSION, "turn_id": turn, **data}
        self._store(
            event(type=f"turn.{kind}", session_id=SESSION, turn_id=turn, subject=turn, sequence=sequence,
                  source="/aes/runtime", data=orjson.dumps(payload))
        )  # fmt: skip

    def text(self, turn: str, follows: int, text: str, *, step: int = 1, offset: int = 0, attempt: int = 1) -> None:
        data = {
            "session_id": SESSION,
            "turn_id": turn,
            "attempt": attempt,
            "step": step,
            "offset": offset,
            "text": text,
        }
        envelope = Envelope(
            id=new_id(), type="aes.runtime.turn.output_text.delta.v1", source="/aes/runtime", subject=turn,
            time=now_text(), correlation_id="label", company_id=COMPANY, causation_id=turn, sequence=follows,
        )  # fmt: skip
        self.wire.append(Received(envelope, orjson.dumps(data)))

    def reply(self, turn: str, sequence: int, content: str) -> None:
        self.turn(turn, "completed", sequence, response={"content": content})

    def _store(self, made: TimelineEvent) -> None:
        stored = replace(made, position=len(self.log) + 1)
        self.log.append(stored)
        self.wire.append(stored)


def a_conversation() -> Session:
    """A turn with a tool call, a second one that waits for it, an artifact in between."""
    session = Session()
    session.other("session.created")
    session.turn(ONE, "started", 1, attempt=1)
    session.text(ONE, 1, "Let me ")
    session.turn(TWO, "queued", 1, position=1)
    session.text(ONE, 1, "see.", offset=7)
    session.turn(ONE, "tool_call.started", 2, step=1, text_length=11)
    session.turn(ONE, "tool_call.completed", 3, step=1)
    session.other("artifact.ready")
    session.text(ONE, 3, "Hello, ", step=2)
    session.text(ONE, 3, "world.", step=2, offset=7)
    session.reply(ONE, 4, ANSWER)
    session.turn(TWO, "started", 2, attempt=1)
    session.text(TWO, 2, "Again.")
    session.reply(TWO, 3, "Again.")
    return session


def take(stream: SessionStream, each: TimelineEvent | Received) -> list[SessionMessage]:
    return stream.take_event(each) if isinstance(each, TimelineEvent) else stream.take_text(each)


def read(session: Session, after: SessionCursor, *, live: bool = True) -> list[SessionMessage]:
    """All messages after a place; without ``live`` what was missed of finished steps comes from their records."""
    stream = SessionStream(after)
    shown = []
    for each in session.wire:
        if isinstance(each, TimelineEvent):
            if each.position > after.position:
                shown += stream.take_event(each)
        elif live:
            shown += stream.take_text(each)
        if (turn := stream.incomplete_turn) is not None and not live:
            shown += stream.take_recorded(turn, {1: "Let me see."}, 2)
    return shown


def durable(messages: list[SessionMessage]) -> list[int]:
    return [message.id.position for message in messages if "output_text" not in message.type]


def texts(messages: list[SessionMessage], turn: str) -> dict[int, str]:
    """The text of each step, whose pieces have to fit together."""
    found: dict[int, str] = {}
    for message in messages:
        if message.type == "turn.output_text.delta" and message.turn_id == turn:
            piece = orjson.loads(message.payload)
            assert piece["offset"] == len(found.get(piece["step"], "")), piece
            found[piece["step"]] = found.get(piece["step"], "") + piece["text"]
    return found


def test_events_come_in_the_order_of_the_log_with_texts_between_them() -> None:
    session = a_conversation()
    shown = read(session, SessionCursor(0))
    assert durable(shown) == [each.position for each in session.log]
    assert texts(shown, ONE) == {1: "Let me see.", 2: ANSWER}
    assert texts(shown, TWO) == {1: "Again."}
    names = [message.type for message in shown if message.turn_id == ONE]
    assert names.index("turn.tool_call.started") > max(
        index for index, name in enumerate(names[:5]) if name == "turn.output_text.delta"
    )


@seeds(60)
def test_texts_and_events_may_overtake_each_other(seed: int) -> None:
    """Events keep their order and texts keep theirs; how they meet does not matter."""
    session, chance = a_conversation(), random.Random(seed)
    events = [each for each in session.wire if isinstance(each, TimelineEvent)]
    pieces = [each for each in session.wire if isinstance(each, Received)]
    stream, shown = SessionStream(SessionCursor(0)), []
    while events or pieces:
        source = chance.choice([each for each in (events, pieces) if each])
        shown += take(stream, source.pop(0))
        if (turn := stream.incomplete_turn) is not None and not pieces:
            shown += stream.take_recorded(turn, {1: "Let me see."}, 2)
    assert durable(shown) == [each.position for each in session.log]
    assert texts(shown, ONE) == {1: "Let me see.", 2: ANSWER}
    assert texts(shown, TWO) == {1: "Again."}


def test_it_goes_on_after_every_one_of_its_messages() -> None:
    session = a_conversation()
    whole = read(session, SessionCursor(0))
    for place, message in enumerate(whole):
        after = SessionCursor.parse(str(message.id))
        assert after == message.id
        for live in (True, False):
            rest = read(session, after, live=live)
            assert durable(rest) == durable(whole[place + 1 :]), (place, live)
            joined = [*whole[: place + 1], *rest]
            assert texts(joined, ONE) == {1: "Let me see.", 2: ANSWER}
            assert texts(joined, TWO) == {1: "Again."}


def test_a_turn_whose_beginning_was_missed_is_shown_by_its_events() -> None:
    session = a_conversation()
    shown = read(session, SessionCursor(4))
    assert durable(shown) == list(range(5, len(session.log) + 1))
    assert texts(shown, ONE) == {}
    assert texts(shown, TWO) == {1: "Again."}


def test_citations_are_shown_after_the_text_and_keep_their_place() -> None:
    session = Session()
    session.turn(ONE, "started", 1, attempt=1)
    session.turn(ONE, "citation.added", 2)
    session.turn(TWO, "queued", 1, position=1)
    session.reply(ONE, 3, ANSWER)
    shown = read(session, SessionCursor(0))
    assert durable(shown) == [1, 2, 3, 4]
    assert [message.type for message in shown][1] == "turn.output_text.delta"


def test_text_of_an_attempt_that_was_given_up_is_not_shown() -> None:
    session = Session()
    session.turn(ONE, "started", 1, attempt=1)
    session.text(ONE, 1, "Hel")
    session.turn(ONE, "restarted", 2, attempt=2, resumed_from_step=0)
    session.text(ONE, 1, "lo", offset=3)
    session.text(ONE, 2, "Hi", attempt=2)
    session.reply(ONE, 3, "Hi.")
    shown = [message for message in read(session, SessionCursor(0)) if message.type == "turn.output_text.delta"]
    assert [(orjson.loads(each.payload)["attempt"], orjson.loads(each.payload)["text"]) for each in shown] == [
        (1, "Hel"), (2, "Hi"), (2, "."),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ["", "x", "1/", "-1", "1/turn/1.1.1.0", f"1/{new_id()}", f"1/{new_id()}/x", "9" * 19, "1 "]
)
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(ValidationFailed):
        SessionCursor.parse(text)
