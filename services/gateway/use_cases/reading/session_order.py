"""Orders a session's events by position, and places its turns' texts between them."""

from collections.abc import Callable, Sequence

import structlog

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.messages import Received
from services.gateway.domain.session_stream import SessionCursor, SessionMessage, SessionStream
from services.gateway.domain.timeline import TimelineEvent, TimelinePage
from services.gateway.use_cases.reading.feed_reader import FeedReader
from services.gateway.use_cases.reading.turn_order import FollowedTurn

_log = structlog.get_logger("gateway.sessions")


class SessionOrder:
    """Orders a session's events and the texts of its turns.

    ``turn`` returns a turn by its ID. ``is_own`` returns whether this reader started a turn. The text of such
    turns arrives without being requested.
    """

    has_ended = False

    def __init__(
        self,
        after: SessionCursor,
        turn: Callable[[str], FollowedTurn],
        is_own: Callable[[str], bool],
    ) -> None:
        self.position = after.position
        self._turn = turn
        self._is_own = is_own
        self._stream = SessionStream(after)

    @property
    def is_incomplete(self) -> bool:
        return self._stream.incomplete_turn is not None

    async def take(self, items: Sequence[TimelineEvent | Received]) -> Sequence[SessionMessage]:
        return [message for each in items for message in await self._take_one(each)]

    async def take_page(self, page: TimelinePage) -> Sequence[SessionMessage]:
        """Accepts stored events. Fetches the texts between them, which no longer arrive by themselves."""
        messages = [message for event in page.events for message in self._stream.take_event(event)]
        self.position = page.next
        return [*messages, *await self.repair()]

    async def join(self, reader: FeedReader) -> Sequence[SessionMessage]:
        self.position = max(self.position, reader.joined_at)
        return [message for turn_id in list(self._stream.open_turns) for message in await self._ask_for_texts(turn_id)]

    async def repair(self) -> Sequence[SessionMessage]:
        turn_id = self._stream.incomplete_turn
        return () if turn_id is None else await self._ask_for_texts(turn_id)

    async def ask(self) -> Sequence[SessionMessage]:
        """Returns nothing, because a lost event leaves a gap in the positions."""
        return ()

    async def _take_one(self, taken: TimelineEvent | Received) -> list[SessionMessage]:
        if isinstance(taken, Received):
            return self._stream.take_text(taken)
        if taken.position <= self.position:
            return []
        self.position = taken.position
        messages = self._stream.take_event(taken)
        if taken.type == "turn.started" and not self._is_own(taken.subject):
            # Requests the text, because the turn's worker sends it only while somebody reads it.
            messages += await self._ask_for_texts(taken.subject)
        return messages

    async def _ask_for_texts(self, turn_id: str) -> list[SessionMessage]:
        """Requests a turn's text. The runtime returns the finished steps' texts, and the worker sends the current
        step's text.
        """
        turn = self._stream.open_turns.get(turn_id)
        if turn is None:
            return []
        try:
            watched = await self._turn(turn_id).watch(turn)
        except ServiceUnavailable as problem:
            _log.info("session.texts_unavailable", turn_id=turn_id, problem=str(problem))
            return []
        except NotFound:
            # The session was deleted, so nothing more will arrive.
            return self._stream.take_recorded(turn_id, {}, turn.newest)
        return self._stream.take_recorded(turn_id, watched.texts, watched.sequence)
