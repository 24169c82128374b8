"""Feeds a session's stream: from the timeline, from the feed, and with texts that were missed."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Final

import structlog

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.messages import Received
from services.gateway.domain.ports import Timeline
from services.gateway.domain.session_stream import SessionCursor, SessionMessage, SessionStream
from services.gateway.domain.timeline import TimelineEvent, TimelineFilter
from services.gateway.use_cases.timeline.feed_reader import FeedReader
from services.gateway.use_cases.turn_history import FollowedTurn, TurnHistory

_log = structlog.get_logger("gateway.sessions")
_PAGE: Final = 200
# Events and texts come over different ways: one may be a little behind the other.
_GRACE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 4.0
_GIVE_UP_SECONDS: Final = 60.0


class SessionFollower:
    """Follows a session for one reader. What stays missing for a quarter of a second is asked for."""

    def __init__(
        self,
        timeline: Timeline,
        history: TurnHistory,
        identity: Identity,
        where: TimelineFilter,
        is_own: Callable[[str], bool],
        after: SessionCursor,
    ) -> None:
        self._timeline = timeline
        self._history = history
        self._identity = identity
        self._where = where
        self._is_own = is_own
        self._stream = SessionStream(after)
        self._read_to = after.position
        self._since: float | None = None
        self._ask_at = 0.0
        self._pause = _GRACE_SECONDS

    async def past(self, *, until: int | None = None) -> AsyncGenerator[SessionMessage, None]:
        """Yields the messages of recorded events, at least of those up to that position."""
        has_more = until is None or self._read_to < until
        while has_more:
            page = await self._timeline.page(self._where, after=self._read_to, limit=_PAGE)
            for event in page.events:
                for message in self._stream.take_event(event):
                    yield message
            has_more = page.has_more and (until is None or page.next < until)
            self._read_to = page.next if until is None or has_more else max(page.next, until)
            if (turn_id := self._stream.incomplete_turn) is not None:
                for message in await self._ask_for_texts(turn_id):
                    yield message

    async def follow(self, reader: FeedReader) -> AsyncGenerator[SessionMessage, None]:
        """Yields the messages of what the reader gets, for ever."""
        for turn_id in list(self._stream.open_turns):
            for message in await self._ask_for_texts(turn_id):
                yield message
        while True:
            for message in await self._next(reader):
                yield message

    async def _next(self, reader: FeedReader) -> list[SessionMessage]:
        incomplete = self._stream.incomplete_turn
        if incomplete is None:
            self._since = None
            return await self._take(await reader.next())
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since, self._pause = now, _GRACE_SECONDS
            self._ask_at = now + self._pause
        try:
            async with asyncio.timeout_at(self._ask_at):
                taken = await reader.next()
        except TimeoutError:
            if now - self._since > _GIVE_UP_SECONDS:
                raise ServiceUnavailable("Texts of a turn cannot be found at present; it goes on.") from None
            found = await self._ask_for_texts(incomplete)
            self._pause = min(4 * self._pause, _LONGEST_PAUSE_SECONDS)
            self._ask_at = asyncio.get_running_loop().time() + self._pause
            return found
        return await self._take(taken)

    async def _take(self, taken: Sequence[TimelineEvent | Received] | int) -> list[SessionMessage]:
        if isinstance(taken, int):
            return []
        return [message for each in taken for message in await self._take_one(each)]

    async def _take_one(self, taken: TimelineEvent | Received) -> list[SessionMessage]:
        if isinstance(taken, Received):
            return self._stream.take_text(taken)
        if taken.position <= self._read_to:
            return []
        self._read_to = taken.position
        messages = self._stream.take_event(taken)
        if taken.type == "turn.started" and not self._is_own(taken.subject):
            # Its worker sends the text only while somebody reads it.
            messages += await self._ask_for_texts(taken.subject)
        return messages

    async def _ask_for_texts(self, turn_id: str) -> list[SessionMessage]:
        """Gives the stream the texts of the turn's finished steps; that of the current one comes from its worker."""
        turn = self._stream.open_turns.get(turn_id)
        if turn is None:
            return []
        session_id = self._where.session_id or ""
        try:
            watched = await self._history.watch(FollowedTurn(session_id, turn_id, self._identity), turn)
        except ServiceUnavailable as problem:
            _log.info("session.texts_unavailable", turn_id=turn_id, problem=str(problem))
            return []
        except NotFound:
            # The session was deleted: what has arrived is all that there will be.
            return self._stream.take_recorded(turn_id, {}, turn.newest)
        return self._stream.take_recorded(turn_id, watched.texts, watched.sequence)
