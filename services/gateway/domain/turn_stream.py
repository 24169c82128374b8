"""Orders a turn's events for streaming. Any replica can resume the stream at the position of any event.

Recorded events come in the order of their ``sequence``. The envelope of a text delta identifies the recorded event
before the text. So every replica produces the same stream, but may divide a text differently into deltas.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, Self

import orjson

from libs.contracts.errors import InvalidRequest
from libs.contracts.messages import Envelope, Received
from libs.contracts.resources.turns import (
    CitationAdded,
    OutputInvalid,
    OutputTextDelta,
    OutputTextDone,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCompleted,
    TurnRestarted,
    TurnStarted,
)
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.domain.turn_ends import END_TYPES

_TEXT: Final = frozenset({OutputTextDelta.TYPE, OutputTextDone.TYPE})
_OF_STEPS: Final = frozenset({ToolCallStarted.TYPE, ToolCallCompleted.TYPE, ToolCallFailed.TYPE, OutputInvalid.TYPE})
_AFTER_TEXT: Final = frozenset({ToolCallStarted.TYPE, OutputInvalid.TYPE})
"""Events whose payload contains the length of the text before them."""
_MAX_HELD: Final = 10_000
_CURSOR: Final = re.compile(r"(\d{1,9})\.([1-9]\d{0,8})\.([1-9]\d{0,8})\.(\d{1,9})(\.d)?", re.ASCII)
# More than twice the length of the longest reply, which has 8 Mi characters.
_NUMBERS_PER_EVENT: Final = 2**25


class Cursor(NamedTuple):
    """A position in a turn's stream. Later positions compare as greater.

    ``sequence``: the last recorded event. ``attempt`` and ``step``: the step whose text comes next. ``offset``: how
    many characters of that text have been sent. ``is_done``: whether all of it has been sent.
    """

    sequence: int = 0
    attempt: int = 1
    step: int = 1
    offset: int = 0
    is_done: bool = False

    def __str__(self) -> str:
        end = ".d" if self.is_done else ""
        return f"{self.sequence}.{self.attempt}.{self.step}.{self.offset}{end}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a cursor. Raises ``InvalidRequest`` for an invalid one."""
        matched = _CURSOR.fullmatch(text)
        if matched is None:
            raise InvalidRequest("Invalid Last-Event-ID. It must be the ID of an event of this stream.")
        sequence, attempt, step, offset, end = matched.groups()
        return cls(int(sequence), int(attempt), int(step), int(offset), end is not None)

    @property
    def number(self) -> int:
        """The cursor as a number that increases along the stream."""
        return self.sequence * _NUMBERS_PER_EVENT + 2 * self.offset + self.is_done

    def _at_step(self, attempt: int, step: int) -> "Cursor":
        if (attempt, step) == (self.attempt, self.step):
            return self
        return Cursor(self.sequence, attempt, step)

    def after(self, event: Received) -> "Cursor":
        """Returns the position after this event, which must be the next recorded one."""
        following = self._replace(sequence=event.envelope.sequence)
        event_type = event.envelope.type
        if event_type in _OF_STEPS:
            return following._at_step(self.attempt, orjson.loads(event.payload)["step"] + 1)
        if event_type == TurnStarted.TYPE:
            return following._at_step(orjson.loads(event.payload)["attempt"], 1)
        if event_type == TurnRestarted.TYPE:
            restarted = orjson.loads(event.payload)
            return following._at_step(restarted["attempt"], restarted["resumed_from_step"] + 1)
        if event_type in END_TYPES:
            # Replicas may have seen different amounts of a failed turn's text.
            return Cursor(following.sequence, self.attempt, self.step)
        return following


START: Final = Cursor()


class StreamedEvent(NamedTuple):
    """An event in a turn's stream. ``id``: the position after the event."""

    id: Cursor
    type: str
    payload: bytes


class TurnStream:
    """A turn's stream, starting after a cursor. Events and texts may arrive in any order.

    Drops duplicates and the text of abandoned attempts. Before an event that follows a text, completes the text from
    the recorded step or from the reply.
    """

    def __init__(self, after: Cursor = START) -> None:
        self.at = after
        self.has_ended = False
        self._events: dict[int, Received] = {}
        self._texts: list[Received] = []
        self._longest = 0
        self._recorded: Mapping[int, str] = {}
        self._recorded_through = 0

    @property
    def is_incomplete(self) -> bool:
        """Whether an earlier event or piece of text is missing."""
        return bool(self._events or self._texts) or self._longest > self.at.offset

    @property
    def newest(self) -> int:
        """The highest sequence number among the recorded events that have arrived."""
        return max(self._events, default=self.at.sequence)

    def take(self, received: Received) -> list[StreamedEvent]:
        """Accepts an event. Returns the events that can be sent now, in order."""
        if self.has_ended:
            return []
        if received.envelope.type in _TEXT:
            shown = self._text(received)
            return [*shown, *self._advance()] if shown and self._events else shown
        if received.envelope.sequence <= self.at.sequence:
            return []
        self._events[received.envelope.sequence] = received
        return list(self._advance())

    def take_history(
        self, events: Iterable[Received], texts: Mapping[int, str], through: int, *, is_all: bool
    ) -> list[StreamedEvent]:
        """Accepts missed events, and the texts of finished steps recorded up to the sequence number ``through``.

        ``is_all``: whether to skip recorded events that aren't in ``events``, because they no longer exist.
        """
        if self.has_ended:
            return []
        self._recorded, self._recorded_through = texts, max(self._recorded_through, through)
        for each in events:
            if each.envelope.sequence > self.at.sequence:
                self._events[each.envelope.sequence] = each
        shown = list(self._advance())
        while is_all and not self.has_ended and self._events and (first := min(self._events)) <= through:
            self.at = self.at._replace(sequence=max(first - 1, self.at.sequence))
            before = self.at
            shown += self._advance()
            if self.at == before:
                break
        return shown

    def _advance(self) -> Iterator[StreamedEvent]:
        while (event := self._events.get(self.at.sequence + 1)) is not None:
            text = self._text_before(event)
            if text is None:
                return
            yield from self._whole(text)
            del self._events[event.envelope.sequence]
            self.at = self.at.after(event)
            self._longest = 0
            yield StreamedEvent(self.at, event.envelope.type, event.payload)
            if event.envelope.type in END_TYPES:
                self.has_ended = True
                self._events.clear()
                self._texts.clear()
                return
            texts, self._texts = self._texts, []
            for each in texts:
                yield from self._text(each)

    def _text_before(self, event: Received) -> "_Text | None":
        """Returns the text that must be complete before the event, or None if it hasn't arrived yet."""
        event_type = event.envelope.type
        if event_type in _AFTER_TEXT:
            return self._text_of_step(event)
        if event_type in (CitationAdded.TYPE, TurnCompleted.TYPE):
            reply = self._reply(event)
            return None if reply is None else _Text(reply["response"]["content"], reply)
        return _NO_TEXT

    def _text_of_step(self, event: Received) -> "_Text | None":
        about = orjson.loads(event.payload)
        length = about["text_length"]
        if about["step"] != self.at.step or not length or self.at.is_done:
            return _NO_TEXT
        if self.at.offset >= length:
            return _Text(None, about)
        if about["step"] in self._recorded:
            return _Text(self._recorded[about["step"]], about)
        # If the session has since been deleted, its steps no longer exist.
        return _NO_TEXT if event.envelope.sequence <= self._recorded_through else None

    def _reply(self, event: Received) -> dict[str, Any] | None:
        """Returns the event's reply. For a citation, returns the next event's reply, or None until it
        arrives.
        """
        sequence = event.envelope.sequence
        while event.envelope.type == CitationAdded.TYPE:
            sequence += 1
            following = self._events.get(sequence)
            if following is None:
                return None
            event = following
        reply: dict[str, Any] = orjson.loads(event.payload)
        return reply if event.envelope.type == TurnCompleted.TYPE else {**reply, "response": {"content": ""}}

    def _whole(self, text: "_Text") -> Iterator[StreamedEvent]:
        """Yields the rest of the step's text as deltas."""
        if text.about is None or self.at.is_done:
            return
        fields = {
            "session_id": text.about["session_id"],
            "turn_id": text.about["turn_id"],
            "attempt": self.at.attempt,
            "step": self.at.step,
        }
        offset = self.at.offset
        if text.content is not None and (rest := text.content[offset:]):
            yield self._delta(OutputTextDelta(**fields, offset=offset, text=rest))
        # A text that is shorter than the sent part is a different text.
        if self.at.offset and (text.content is None or self.at.offset == len(text.content)):
            yield self._done(OutputTextDone(**fields, length=self.at.offset).encode())

    def _text(self, received: Received) -> list[StreamedEvent]:
        piece = orjson.loads(received.payload)
        sequence, attempt, step, length, is_done = self.at
        position, own = (piece["attempt"], piece["step"]), (attempt, step)
        follows = received.envelope.sequence
        if position < own or follows < sequence:
            return []
        if position > own or follows > sequence:
            # The limit only protects memory against a broken producer.
            if len(self._texts) < _MAX_HELD:
                self._texts.append(received)
            return []
        if received.envelope.type == OutputTextDone.TYPE:
            self._longest = max(self._longest, piece["length"])
            return [self._done(received.payload)] if piece["length"] == length and not is_done else []
        offset, text = piece["offset"], piece["text"]
        end = offset + len(text)
        self._longest = max(self._longest, end)
        if offset > length or end <= length:
            return []
        if offset == length:
            self.at = Cursor(sequence, attempt, step, end)
            return [StreamedEvent(self.at, OutputTextDelta.TYPE, received.payload)]
        rest = {**piece, "offset": length, "text": text[length - offset :]}
        return [self._delta(OutputTextDelta.model_validate(rest))]

    def _delta(self, delta: OutputTextDelta) -> StreamedEvent:
        self.at = self.at._replace(offset=delta.offset + len(delta.text))
        return StreamedEvent(self.at, delta.TYPE, delta.encode())

    def _done(self, payload: bytes) -> StreamedEvent:
        self.at = self.at._replace(is_done=True)
        return StreamedEvent(self.at, OutputTextDone.TYPE, payload)


class _Text(NamedTuple):
    """The whole text before an event. ``about``: the payload of one of the turn's events, or None without text.

    ``content`` is None if all of the text was sent.
    """

    content: str | None
    about: dict[str, Any] | None


_NO_TEXT: Final = _Text(None, None)


def as_received(event: TimelineEvent) -> Received:
    """Converts a turn's event from the timeline into the form of events received from Kafka."""
    envelope = Envelope(
        id=event.id,
        type=f"aes.runtime.{event.type}.v{event.version}",
        source=event.source,
        subject=event.subject,
        time=event.time,
        correlation_id=event.correlation_id,
        causation_id=event.causation_id,
        company_id=event.company_id,
        sequence=event.sequence,
    )
    return Received(envelope, event.data)
