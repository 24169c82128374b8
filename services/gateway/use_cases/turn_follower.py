"""Follows a turn event by event, and fetches missing events and text."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import structlog

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.messages import Received
from libs.eventing import Replies
from services.gateway.domain.turn_stream import StreamedEvent, TurnStream
from services.gateway.use_cases.turn_history import FollowedTurn, TurnHistory

_log = structlog.get_logger("gateway.turns")
KEEP_ALIVE_SECONDS: Final = 15.0
# Events and deltas come on topics of their own: one may be a little behind the other.
_GRACE_SECONDS: Final = 0.25
_LONGEST_PAUSE_SECONDS: Final = 4.0
_GIVE_UP_SECONDS: Final = 60.0


class TurnFollower:
    """Feeds a stream from the bus; what stays missing for a quarter of a second is asked for."""

    def __init__(self, turn: FollowedTurn, stream: TurnStream, replies: Replies, history: TurnHistory) -> None:
        self._turn = turn
        self._stream = stream
        self._replies = replies
        self._history = history
        self._since: float | None = None
        self._repair_at = 0.0
        self._pause = _GRACE_SECONDS

    async def follow(self, received: Received | None) -> AsyncGenerator[StreamedEvent | None, None]:
        """Yields events, beginning with those of ``received``, up to the terminal one, and ``None`` after 15 s without.

        Raises ``ServiceUnavailable`` when something cannot be found for a minute.
        """
        shown: list[StreamedEvent] | None = [] if received is None else self._stream.take(received)
        while True:
            if shown is None:
                yield None
            else:
                for each in shown:
                    yield each
            if self._stream.has_ended:
                return
            shown = await self._more()

    async def _more(self) -> list[StreamedEvent] | None:
        now = asyncio.get_running_loop().time()
        if not self._stream.is_incomplete:
            self._since = None
            received = await self._replies.next(KEEP_ALIVE_SECONDS)
            return await self._missed() if received is None else self._stream.take(received)
        if self._since is None:
            self._since, self._pause = now, _GRACE_SECONDS
            self._repair_at = now + self._pause
        if (left := self._repair_at - now) > 0:
            received = await self._replies.wait(left)
            return [] if received is None else self._stream.take(received)
        if now - self._since > _GIVE_UP_SECONDS:
            raise ServiceUnavailable("Events of the turn cannot be found at present; it goes on.", retry_after=2)
        shown = await self._repair()
        self._pause = min(4 * self._pause, _LONGEST_PAUSE_SECONDS)
        self._repair_at = asyncio.get_running_loop().time() + self._pause
        return shown or None

    async def _missed(self) -> list[StreamedEvent] | None:
        """Asks for events after a silence: one that was lost on the bus leaves no gap while the turn is waiting."""
        try:
            return await self._history.missed(self._turn, self._stream) or None
        except (ServiceUnavailable, NotFound) as problem:
            _log.info("turn.not_completed", turn_id=self._turn.turn_id, problem=str(problem))
            return None

    async def _repair(self) -> list[StreamedEvent]:
        try:
            watched = await self._history.watch(self._turn, self._stream)
            return await self._history.complete(self._turn, self._stream, watched)
        except ServiceUnavailable as problem:
            _log.info("turn.not_completed", turn_id=self._turn.turn_id, problem=str(problem))
            return []
        except NotFound:
            # Its session was deleted: what has arrived is all that there will be.
            last = self._stream.newest
            return self._stream.take_history((), {}, last, is_all=True)
