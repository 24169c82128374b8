"""Merges a session's events and the texts of its turns into one ordered stream.

Events keep the order of the timeline. ``TurnStream`` places a turn's text between the turn's events.
"""

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple, Self

from libs.contracts.errors import InvalidRequest, ValidationFailed
from libs.contracts.messages import Received, public_name
from libs.contracts.resources.turns import OutputTextDelta, OutputTextDone
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.domain.turn_ends import END_NAMES
from services.gateway.domain.turn_stream import Cursor, StreamedEvent, TurnStream, as_received

_TEXT: Final = frozenset({OutputTextDelta.TYPE, OutputTextDone.TYPE})
_BEGINNINGS: Final = frozenset({"turn.queued", "turn.started", "turn.restarted"})
_MOST_EARLY_TURNS: Final = 4
_MOST_EARLY_TEXTS: Final = 2000
_NO_CURSOR: Final = "Invalid message: `after` must be the ID of a message that you received."
_CURSOR: Final = re.compile(r"([0-9]{1,19})(?:/([0-9a-f-]{36})/([0-9.d]{1,60}))?", re.ASCII)


class SessionCursor(NamedTuple):
    """A position in a session's stream: the last timeline event, and the position in the running turn's stream."""

    position: int
    turn_id: str = ""
    turn_at: Cursor | None = None

    def __str__(self) -> str:
        return f"{self.position}/{self.turn_id}/{self.turn_at}" if self.turn_at is not None else str(self.position)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parses a cursor. Raises ``ValidationFailed`` for an invalid one."""
        matched = _CURSOR.fullmatch(text)
        if matched is None or int(matched[1]) >= 2**63:
            raise ValidationFailed(_NO_CURSOR)
        position, turn_id, turn_at = matched.groups()
        if turn_id is None:
            return cls(int(position))
        try:
            return cls(int(position), turn_id, Cursor.parse(turn_at))
        except InvalidRequest:
            raise ValidationFailed(_NO_CURSOR) from None


class SessionMessage(NamedTuple):
    """A message in a session's stream. ``id``: the position after the message. ``turn_id`` can be empty."""

    id: SessionCursor
    type: str
    payload: bytes
    turn_id: str = ""


class SessionStream:
    """A session's stream, starting after a cursor.

    If the stream begins in the middle of a turn, the rest of the turn's text is omitted. If text is missing before an
    event, that event and all later events wait until ``take_recorded`` supplies the text.
    """

    def __init__(self, after: SessionCursor) -> None:
        self.at = after
        self._turns: dict[str, TurnStream] = {}
        self._waiting: deque[TimelineEvent] = deque()
        self._made: defaultdict[str, deque[StreamedEvent]] = defaultdict(deque)
        self._early: OrderedDict[str, list[Received]] = OrderedDict()
        self._known_turns: OrderedDict[str, None] = OrderedDict()
        if after.turn_at is not None:
            self._turns[after.turn_id] = TurnStream(after.turn_at)

    @property
    def open_turns(self) -> Mapping[str, TurnStream]:
        """The streams of the unfinished turns whose texts are shown, by turn ID."""
        return self._turns

    @property
    def incomplete_turn(self) -> str | None:
        """The ID of a turn with a gap in its events or text, or None."""
        if self._waiting:
            return self._waiting[0].subject
        return next((turn_id for turn_id, turn in self._turns.items() if turn.is_incomplete), None)

    def take_event(self, event: TimelineEvent) -> list[SessionMessage]:
        """Accepts the timeline's next event. Returns the messages that can be sent now."""
        self._waiting.append(event)
        if _is_of_turn(event):
            turn = self._turn_of(event)
            if turn is not None:
                made = self._made[event.subject]
                made += turn.take(as_received(event))
                for text in self._early.pop(event.subject, ()):
                    made += turn.take(text)
        return list(self._release())

    def take_text(self, received: Received) -> list[SessionMessage]:
        """Accepts a piece of a turn's text, which may arrive before the preceding event."""
        turn_id = received.envelope.subject
        turn = self._turns.get(turn_id)
        if turn is not None:
            self._made[turn_id] += turn.take(received)
            return list(self._release())
        if turn_id not in self._known_turns:
            texts = self._early.setdefault(turn_id, [])
            if len(texts) < _MOST_EARLY_TEXTS:
                texts.append(received)
            if len(self._early) > _MOST_EARLY_TURNS:
                self._early.popitem(last=False)
        return []

    def take_recorded(self, turn_id: str, texts: Mapping[int, str], through: int) -> list[SessionMessage]:
        """Accepts the recorded texts of a turn's finished steps, up to the sequence number ``through``."""
        turn = self._turns.get(turn_id)
        if turn is not None:
            self._made[turn_id] += turn.take_history((), texts, through, is_all=False)
        return list(self._release())

    def _turn_of(self, event: TimelineEvent) -> TurnStream | None:
        """Returns the stream of the event's turn, or None if the turn began before this stream."""
        turn = self._turns.get(event.subject)
        if turn is None and event.subject not in self._known_turns and event.type in _BEGINNINGS:
            turn = self._turns[event.subject] = TurnStream(Cursor(sequence=event.sequence - 1))
        self._known_turns[event.subject] = None
        if len(self._known_turns) > 1000:
            self._known_turns.popitem(last=False)
        return turn

    def _release(self) -> Iterator[SessionMessage]:
        while self._waiting:
            event = self._waiting[0]
            turn = self._turns.get(event.subject) if _is_of_turn(event) else None
            if turn is None:
                self.at = self.at._replace(position=event.position)
                yield SessionMessage(self.at, event.type, event.data, event.turn_id or "")
            else:
                made = list(self._made_up_to(event))
                yield from made
                if not any(each.id.position == event.position for each in made):
                    if turn.at.sequence < event.sequence:
                        return
                    # This stream began after the event.
                    self.at = self.at._replace(position=event.position)
                if event.type in END_NAMES:
                    self._turns.pop(event.subject)
                    self._made.pop(event.subject, None)
            self._waiting.popleft()
        for turn_id in list(self._turns):
            yield from self._texts_of(turn_id)

    def _made_up_to(self, event: TimelineEvent) -> Iterator[SessionMessage]:
        """Yields the turn's messages up to and including this event."""
        yield from self._texts_of(event.subject)
        made = self._made[event.subject]
        if made:
            shown = made.popleft()
            self.at = SessionCursor(event.position, self.at.turn_id, self.at.turn_at)
            if event.type in END_NAMES:
                if self.at.turn_id == event.subject:
                    self.at = SessionCursor(event.position)
            elif event.type != "turn.queued":
                self.at = SessionCursor(event.position, event.subject, shown.id)
            yield SessionMessage(self.at, event.type, event.data, event.subject)

    def _texts_of(self, turn_id: str) -> Iterator[SessionMessage]:
        made = self._made[turn_id]
        while made and made[0].type in _TEXT:
            shown = made.popleft()
            self.at = SessionCursor(self.at.position, turn_id, shown.id)
            yield SessionMessage(self.at, public_name(shown.type), shown.payload, turn_id)


def _is_of_turn(event: TimelineEvent) -> bool:
    return event.subject == event.turn_id and event.type.startswith("turn.")
