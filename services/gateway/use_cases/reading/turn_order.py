"""Orders a turn's events by sequence, and places each step's text between them."""

from collections.abc import Sequence

import structlog

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.messages import Received
from libs.contracts.resources.turns import WatchedTurn
from libs.eventing import Replies
from services.gateway.domain.turn_stream import Cursor, StreamedEvent, TurnStream
from services.gateway.use_cases.reading.feed_reader import KEEP_ALIVE_SECONDS
from services.gateway.use_cases.reading.turn_history import FollowedTurn, TurnHistory

_log = structlog.get_logger("gateway.turns")


class TurnQueue:
    """Supplies a turn's events and texts as they arrive over Kafka."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies

    async def next(self) -> Sequence[Received]:
        return _listed(await self._replies.next(KEEP_ALIVE_SECONDS))

    async def wait(self, seconds: float) -> Sequence[Received]:
        return _listed(await self._replies.wait(seconds))


class TurnOrder:
    def __init__(self, turn: FollowedTurn, after: Cursor, history: TurnHistory) -> None:
        self._turn = turn
        self._stream = TurnStream(after)
        self._history = history

    @property
    def is_incomplete(self) -> bool:
        return self._stream.is_incomplete

    @property
    def has_ended(self) -> bool:
        return self._stream.has_ended

    async def take(self, items: Sequence[Received]) -> Sequence[StreamedEvent]:
        return [shown for received in items for shown in self._stream.take(received)]

    async def watch(self) -> WatchedTurn:
        """Requests the turn's text from its worker. Raises ``NotFound`` and ``ServiceUnavailable``."""
        return await self._history.watch(self._turn, self._stream)

    async def complete(self, watched: WatchedTurn) -> Sequence[StreamedEvent]:
        """Takes everything recorded before the turn was watched. Raises like ``watch``."""
        return await self._history.complete(self._turn, self._stream, watched)

    async def repair(self) -> Sequence[StreamedEvent]:
        try:
            return await self.complete(await self.watch())
        except ServiceUnavailable as problem:
            _log.info("turn.not_completed", turn_id=self._turn.turn_id, problem=str(problem))
            return ()
        except NotFound:
            # The session was deleted, so nothing more will arrive.
            last = self._stream.newest
            return self._stream.take_history((), {}, last, is_all=True)

    async def ask(self) -> Sequence[StreamedEvent]:
        """Asks while the turn is waiting: an event lost on Kafka then leaves no gap."""
        try:
            return await self._history.missed(self._turn, self._stream)
        except (ServiceUnavailable, NotFound) as problem:
            _log.info("turn.not_completed", turn_id=self._turn.turn_id, problem=str(problem))
            return ()


def _listed(received: Received | None) -> Sequence[Received]:
    return () if received is None else (received,)
