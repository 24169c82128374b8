"""Filters and orders the events of a turn for its stream.

Text deltas come on a topic of their own that may lose them, so that they and the other events overtake each other.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import orjson

from libs.contracts.events.runtime import (
    OutputTextDelta,
    OutputTextDone,
    ToolCallCompleted,
    ToolCallFailed,
    ToolCallStarted,
    TurnCancelled,
    TurnCompleted,
    TurnFailed,
    TurnRestarted,
    TurnStarted,
)
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Event
from libs.eventing import Received

_TEXT: Final = frozenset({OutputTextDelta.TYPE, OutputTextDone.TYPE})
_ATTEMPTS: Final = frozenset({TurnStarted.TYPE, TurnRestarted.TYPE})
_CALL_ENDS: Final = frozenset({ToolCallCompleted.TYPE, ToolCallFailed.TYPE})
_ENDS: Final = frozenset({TurnCompleted.TYPE, TurnFailed.TYPE, TurnCancelled.TYPE})
_MAX_HELD: Final = 10_000


class _Place(NamedTuple):
    """The attempt and step of a piece of text; a later one makes earlier ones void or complete."""

    attempt: int
    step: int


class TurnStream:
    """Yields text in the order of its steps, without gaps, and the reply's whole text before the turn's end.

    The deltas of the last step make up the reply, even when some were lost on the way. Text of abandoned attempts and
    redelivered events are dropped. ``from_beginning``: no event of the turn was missed. Only then can text wait for
    the tool calls of the step before.
    """

    def __init__(self, *, from_beginning: bool) -> None:
        self._from_beginning = from_beginning
        self._attempt = 0
        self._seen: set[str] = set()
        self._open_calls: defaultdict[int, set[str]] = defaultdict(set)
        self._last_called = 0
        self._place = _Place(0, 0)
        self._shown: list[str] = []
        self._length = 0
        self._done = False
        self._held: list[Received] = []

    def take(self, received: Received) -> Iterator[Received]:
        """Returns the events to send after this one has arrived, in order."""
        if received.envelope.type in _TEXT:
            yield from self._text(received)
            return
        if received.envelope.id in self._seen:
            return
        self._seen.add(received.envelope.id)
        self._track(received)
        if received.envelope.type == TurnCompleted.TYPE:
            yield from self._missing_text(received)
        yield received
        held, self._held = self._held, []
        if received.envelope.type in _ENDS:
            return
        for waiting in held:
            yield from self._text(waiting)

    def _track(self, received: Received) -> None:
        event_type = received.envelope.type
        if event_type in _ATTEMPTS:
            self._attempt = max(self._attempt, int(orjson.loads(received.payload)["attempt"]))
        elif event_type == ToolCallStarted.TYPE:
            call = orjson.loads(received.payload)
            self._last_called = max(self._last_called, call["step"])
            self._open_calls[call["step"]].add(call["call_id"])
        elif event_type in _CALL_ENDS:
            call = orjson.loads(received.payload)
            self._last_called = max(self._last_called, call["step"])
            self._open_calls[call["step"]].discard(call["call_id"])

    def _text(self, received: Received) -> Iterator[Received]:
        piece = orjson.loads(received.payload)
        place = _Place(piece["attempt"], piece["step"])
        if place < self._place or place.attempt < self._attempt:
            return
        if self._must_wait(place):
            # The tool calls are on their way; the limit only keeps a broken producer from filling the memory.
            if len(self._held) < _MAX_HELD:
                self._held.append(received)
            return
        if place != self._place:
            self._place, self._shown, self._length, self._done = place, [], 0, False
        if received.envelope.type == OutputTextDone.TYPE:
            if piece["length"] == self._length and not self._done:
                self._done = True
                yield received
        elif piece["offset"] == self._length:
            # After a gap no more text of the step is sent: the reply fills it in.
            self._shown.append(piece["text"])
            self._length += len(piece["text"])
            yield received

    def _must_wait(self, place: _Place) -> bool:
        if not self._from_beginning:
            return False
        if self._attempt and place.attempt > self._attempt:
            return True
        before = place.step - 1
        return before > 0 and (before not in self._open_calls or bool(self._open_calls[before]))

    def _missing_text(self, completed: Received) -> Iterator[Received]:
        """Makes deltas of the part of the reply's text that has not been sent."""
        reply: dict[str, Any] = orjson.loads(completed.payload)
        content: str = reply["response"]["content"]
        place = max(self._place, _Place(max(self._attempt, 1), self._last_called + 1))
        shown = "".join(self._shown) if place == self._place else ""
        if not content.startswith(shown):
            return
        about = {"session_id": reply["session_id"], "turn_id": reply["turn_id"], **place._asdict()}
        if rest := content[len(shown) :]:
            yield self._derived(completed, OutputTextDelta(**about, offset=len(shown), text=rest))
        if content and (rest or not self._done):
            yield self._derived(completed, OutputTextDone(**about, length=len(content)))

    @staticmethod
    def _derived(completed: Received, event: Event) -> Received:
        envelope = replace(completed.envelope, id=new_id(), type=event.TYPE, sequence=0, data_ref=None, data_hash=None)
        return Received(envelope, event.encode())
