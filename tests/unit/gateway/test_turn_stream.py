"""Streams of turns whose events overtake each other, come twice or get lost: examples, and runs that crash."""

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pytest

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorInfo, ErrorKind, InvalidRequest
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Envelope, Event, Received
from libs.contracts.replies import Reply, Usage
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import (
    CitationAdded,
    OutputInvalid,
    OutputTextDelta,
    OutputTextDone,
    RequiredAction,
    ToolCallCompleted,
    ToolCallStarted,
    TurnActionRequired,
    TurnActionResolved,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnQueued,
    TurnRestarted,
    TurnStarted,
)
from libs.contracts.timestamps import now_text
from services.gateway.domain.turn_stream import START, Cursor, StreamedEvent, TurnStream
from tests.support.seeds import seeds

IDS: dict[str, Any] = {"session_id": "s", "turn_id": "t"}
STARTED = TurnStarted(**IDS, attempt=1, user_message_id="m")
CALL = ToolCallStarted(**IDS, step=1, call_id="c", name="calculator", arguments={}, text_length=5)
CALLED = ToolCallCompleted(**IDS, step=1, call_id="c", name="calculator", output="4")
FAILED = TurnFailed(**IDS, error=ErrorInfo(type=ErrorKind.MODEL, message="no"))


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


EXPIRY = "2026-05-05T08:00:00.000000Z"
ALPHABET = "abcdefghijklmnop \N{GRINNING FACE}ü"


@dataclass
class World:
    """A turn on a runtime: what it records, what it publishes, and the text that it is at."""

    chance: random.Random
    recorded: list[Received] = field(default_factory=list)
    published: list[Received] = field(default_factory=list)
    texts: dict[int, str] = field(default_factory=dict)
    follows: dict[tuple[int, int], int] = field(default_factory=dict)
    attempt: int = 1
    step: int = 1
    text: str = ""
    is_done: bool = False
    is_watched: bool = False

    def live(self) -> Iterator[None]:
        """One pass between any two of the turn's doings."""
        if self.chance.random() < 0.3:
            yield from self._record(TurnQueued(**IDS, position=1, user_message_id="m"))
        yield from self._record(TurnStarted(**IDS, attempt=1, user_message_id="m"))
        last_step = self.chance.randint(1, 3)
        while self.step <= last_step:
            yield from self._say()
            if self.chance.random() < 0.2:
                yield from self._reclaim()
                continue
            if self.chance.random() < 0.03:
                yield from self._record(TurnCancelled(**IDS, reason="asked for"))
                return
            if self.step == last_step:
                break
            yield from self._call_tools()
        for _ in range(self.chance.choice((0, 0, 2))):
            self._append(CitationAdded(**IDS, citation=Citation(passage="p")))
        yield from self._record(completed(self.text))

    def _say(self) -> Iterator[None]:
        self.text, self.is_done = "", False
        self.follows[self.attempt, self.step] = len(self.recorded)
        whole = "".join(self.chance.choices(ALPHABET, k=self.chance.choice((0, 3, 20))))
        cut_off = self.chance.random() < 0.1
        while len(self.text) < len(whole):
            piece = whole[len(self.text) : len(self.text) + self.chance.randint(1, 5)]
            yield from self._send_again()
            self._publish(OutputTextDelta(**self._place(), offset=len(self.text), text=piece))
            self.text += piece
            if cut_off and self.chance.random() < 0.3:
                yield from self._reclaim()
                yield from self._say()
                return
            yield
        if self.text:
            self._publish(OutputTextDone(**self._place(), length=len(self.text)))
            self.is_done = True
        yield from self._send_again()
        yield

    def _send_again(self) -> Iterator[None]:
        if self.is_watched and self.chance.random() < 0.5:
            self.is_watched = False
            if self.text:
                self._publish(OutputTextDelta(**self._place(), offset=0, text=self.text))
            if self.is_done:
                self._publish(OutputTextDone(**self._place(), length=len(self.text)))
        yield

    def _call_tools(self) -> Iterator[None]:
        calls = [f"call-{self.step}-{number}" for number in range(self.chance.randint(1, 3))]
        about: dict[str, Any] = {**IDS, "step": self.step, "name": "x"}
        for number, call in enumerate(calls):
            length = 0 if number else len(self.text)
            self._append(ToolCallStarted(**about, call_id=call, arguments={}, text_length=length))
        if self.text:
            self.texts[self.step] = self.text
        self.step, self.text = self.step + 1, ""
        yield
        awaited = [call for call in calls if self.chance.random() < 0.2]
        for call in calls:
            if call not in awaited:
                yield from self._record(ToolCallCompleted(**about, call_id=call, output="4"))
                if self.chance.random() < 0.1:
                    yield from self._reclaim()
        yield from self._wait(awaited, about)

    def _wait(self, calls: list[str], about: dict[str, Any]) -> Iterator[None]:
        """The turn goes on in the same attempt, without an event that says so."""
        for call in calls:
            tool_call = RequestedToolCall(id=call, name="x", arguments={})
            action = RequiredAction(action_id=call, kind="tool_result", tool_call=tool_call, expires_at=EXPIRY)
            self._append(TurnActionRequired(**IDS, step=about["step"], action=action))
        yield
        for call in calls:
            self._append(TurnActionResolved(**IDS, action_id=call, kind="tool_result", call_id=call))
            yield from self._record(ToolCallCompleted(**about, call_id=call, output="4"))

    def _reclaim(self) -> Iterator[None]:
        self.attempt, self.text = self.attempt + 1, ""
        yield from self._record(TurnRestarted(**IDS, attempt=self.attempt, resumed_from_step=self.step - 1))

    def _record(self, event: Event) -> Iterator[None]:
        self._append(event)
        yield

    def _append(self, event: Event) -> None:
        self.recorded.append(received(event, len(self.recorded) + 1))
        self.published.append(self.recorded[-1])

    def _publish(self, event: Event) -> None:
        self.published.append(received(event, self.follows[self.attempt, self.step]))

    def _place(self) -> dict[str, Any]:
        return {**IDS, "attempt": self.attempt, "step": self.step}


@dataclass
class Client:
    """A client that keeps text by its place, and checks every event against what it had before."""

    world: World
    cursor: Cursor = START
    sequence: int = 0
    voided: int = 0
    texts: defaultdict[tuple[int, int], str] = field(default_factory=lambda: defaultdict(str))
    done: set[tuple[int, int]] = field(default_factory=set)
    has_ended: bool = False

    def take(self, event: StreamedEvent) -> None:
        assert not self.has_ended
        assert event.id.number > self.cursor.number, "ids grow"
        self.cursor = Cursor.parse(str(event.id))
        data = orjson.loads(event.payload)
        if event.type in (OutputTextDelta.TYPE, OutputTextDone.TYPE):
            place = data["attempt"], data["step"]
            assert data["attempt"] > self.voided
            assert self.world.follows[place] == self.sequence, "text comes right after the event that it follows"
            if event.type == OutputTextDelta.TYPE:
                assert data["offset"] == len(self.texts[place])
                self.texts[place] += data["text"]
            else:
                assert data["length"] == len(self.texts[place])
                assert place not in self.done
                self.done.add(place)
            return
        self.sequence += 1
        assert event.payload == self.world.recorded[self.sequence - 1].payload
        if event.type == TurnRestarted.TYPE:
            self.voided = data["attempt"] - 1
        self.has_ended = event.type in (TurnCompleted.TYPE, TurnCancelled.TYPE)

    def check_whole(self) -> None:
        """Has everything, when it followed from the start."""
        assert self.sequence == len(self.world.recorded)
        current = {step: text for (_, step), text in sorted(self.texts.items()) if text}
        assert {step: current[step] for step in self.world.texts} == self.world.texts
        end = orjson.loads(self.world.recorded[-1].payload)
        if "response" in end:
            assert self.texts[self.world.attempt, self.world.step] == end["response"]["content"]
            assert bool(end["response"]["content"]) is ((self.world.attempt, self.world.step) in self.done)


class Replica:
    """Follows the turn for a client. What was published while it listens arrives late, twice, or never."""

    def __init__(self, chance: random.Random, world: World, client: Client, loss: float) -> None:
        self._chance, self._world, self._client, self._loss = chance, world, client, loss
        self._heard = len(world.published)
        self._events: list[Received] = []
        self._deltas: list[Received] = []
        self._stream = TurnStream(client.cursor)
        if client.cursor != START or chance.random() < 0.5:
            self.repair()

    def listen(self) -> None:
        """Takes in what was published since, in an order of its own."""
        for each in self._world.published[self._heard :]:
            if self._chance.random() >= self._loss:
                is_delta = each.envelope.type in (OutputTextDelta.TYPE, OutputTextDone.TYPE)
                topic = self._deltas if is_delta else self._events
                topic += [each] * self._chance.choice((1, 1, 1, 2))
        self._heard = len(self._world.published)
        if self._chance.random() < 0.1:
            self._chance.shuffle(self._deltas)
        while (self._events or self._deltas) and self._chance.random() < 0.8:
            topic = self._chance.choice([topic for topic in (self._events, self._deltas) if topic])
            self._forward(self._stream.take(topic.pop(0)))

    def repair(self) -> None:
        """Fetches what was recorded, as the log or as the owner has it, and has the text sent again."""
        self._world.is_watched = True
        through = len(self._world.recorded)
        texts = dict(self._world.texts)
        events = [each for each in self._world.recorded if self._chance.random() > 0.1]
        is_all = len(events) < through
        if is_all:
            events += self._world.recorded
        self._forward(self._stream.take_history(events, texts, through, is_all=is_all))

    @property
    def is_incomplete(self) -> bool:
        return self._stream.is_incomplete

    def _forward(self, events: list[StreamedEvent]) -> None:
        for event in events:
            self._client.take(event)


@pytest.mark.rule(13)
@seeds(400)
def test_whoever_follows_a_turn_anywhere_has_all_of_it_once(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance)
    loss = chance.choice((0.0, 0.05, 0.4))
    clients = [Client(world) for _ in range(3)]
    # The first one from the turn's beginning, the others come when they like.
    replicas: dict[int, Replica] = {0: Replica(chance, world, clients[0], loss)}
    for _ in world.live():
        for number, client in enumerate(clients):
            replica = replicas.get(number)
            if replica is None or chance.random() < 0.1:
                if replica is not None or chance.random() < 0.2:
                    replicas[number] = Replica(chance, world, client, loss)
                continue
            replica.listen()
            if replica.is_incomplete and chance.random() < 0.2:
                replica.repair()
    for number, client in enumerate(clients):
        if not client.has_ended:
            replicas[number] = Replica(chance, world, client, loss)
        while not client.has_ended:
            replicas[number].repair()
        client.check_whole()


@seeds(100)
def test_every_replica_gives_an_event_the_same_id(seed: int) -> None:
    chance = random.Random(seed)
    world = World(chance)
    for _ in world.live():
        pass
    found: dict[tuple[Any, ...], Cursor] = {}
    for _ in range(4):
        shuffled = list(world.published)
        chance.shuffle(shuffled)
        stream = TurnStream()
        shown = [each for arrived in shuffled for each in stream.take(arrived)]
        shown += stream.take_history(world.recorded, world.texts, len(world.recorded), is_all=True)
        sequence = 0
        for each in shown:
            data = orjson.loads(each.payload)
            if each.type == OutputTextDelta.TYPE:
                key: tuple[Any, ...] = (data["attempt"], data["step"], data["offset"] + len(data["text"]))
            elif each.type == OutputTextDone.TYPE:
                key = (data["attempt"], data["step"], "done")
            else:
                sequence += 1
                key = (sequence,)
            assert found.setdefault(key, each.id) == each.id
        assert stream.has_ended
        assert sequence == len(world.recorded)


def test_a_stream_holds_back_no_more_than_a_bound() -> None:
    stream = TurnStream()
    piece = received(OutputTextDelta(**IDS, attempt=9, step=1, offset=0, text="x"), 9)
    for number in range(20_000):
        stream.take(replace(piece, envelope=replace(piece.envelope, id=str(number))))
    assert len(stream._texts) == 10_000
