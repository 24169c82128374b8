"""Orders a turn's events by sequence number, and places each step's text between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.messages import Received
from libs.contracts.resources.turns import Turn, WatchedTurn
from libs.eventing import Replies
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from libs.service_defaults.internal_routes import decode_events
from services.gateway.domain.ports import Timeline
from services.gateway.domain.turn_stream import Cursor, StreamedEvent, TurnStream, as_received
from services.gateway.use_cases.reading.feed_reader import KEEP_ALIVE_SECONDS

_log = structlog.get_logger("gateway.turns")
_RUNTIME: Final = "runtime"


@dataclass(frozen=True, slots=True)
class FollowedTurn:
    """A turn, as seen by one caller. Fetches the events and texts that a stream has missed.

    Every method raises ``NotFound`` if the caller can't see the turn, and ``ServiceUnavailable`` if the runtime doesn't
    respond.
    """

    session_id: str
    turn_id: str
    identity: Identity
    log: Timeline
    upstreams: UpstreamClient

    @property
    def _path(self) -> str:
        return f"/internal/sessions/{self.session_id}/turns/{self.turn_id}"

    async def state(self) -> Turn:
        return await self.upstreams.read(Turn, _RUNTIME, self._path, self.identity)

    async def watch(self, stream: TurnStream) -> WatchedTurn:
        """Requests the turn's text. Within a second, the worker starts to send the current step's text from its
        beginning.
        """
        params = {"after_step": stream.at.step - 1}
        answer = await self.upstreams.request("POST", _RUNTIME, f"{self._path}/watch", self.identity, params=params)
        return WatchedTurn.model_validate_json(checked(answer))

    async def missed(self, stream: TurnStream) -> list[StreamedEvent]:
        """Passes the recorded events to the stream. Returns the events that can be sent now."""
        events = await self._recorded(stream.at.sequence)
        return [shown for event in _of_turn(events) for shown in stream.take(event)]

    async def complete(self, stream: TurnStream, watched: WatchedTurn) -> list[StreamedEvent]:
        """Passes everything recorded before ``watch`` to the stream. Returns the events that can be sent now."""
        after, through = stream.at.sequence, watched.sequence
        events = list(await self._recorded(after)) if after < through else []
        are_missing = sum(event.envelope.sequence <= through for event in events) < through - after
        if are_missing:
            # Of two events with the same sequence number, the later one wins: it replaced a terminal event that was
            # never sent.
            events += await self._logged(after)
        return stream.take_history(_of_turn(events), watched.texts, through, is_all=are_missing)

    async def _logged(self, after: int) -> Sequence[Received]:
        """Returns the events from the timeline, in case the runtime has deleted them."""
        try:
            found = await self.log.turn(self.identity.company_id, self.turn_id, after_sequence=after)
        except ServiceUnavailable as problem:
            _log.info("turn.log_unreachable", turn_id=self.turn_id, problem=str(problem))
            return ()
        return [as_received(event) for event in found]

    async def _recorded(self, after: int) -> Sequence[Received]:
        """Returns the events from the runtime, which are current but are deleted after a few days."""
        params = {"after": after}
        answer = await self.upstreams.request("GET", _RUNTIME, f"{self._path}/events", self.identity, params=params)
        return decode_events(checked(answer))


def _of_turn(events: Sequence[Received]) -> Iterator[Received]:
    # Excludes the outcome of a cancel command, whose subject is also the turn.
    return (event for event in events if event.envelope.type.startswith("aes.runtime.turn."))


class TurnQueue:
    """Supplies a turn's events and texts as they arrive over Kafka."""

    def __init__(self, replies: Replies) -> None:
        self._replies = replies

    async def next(self) -> Sequence[Received]:
        return _listed(await self._replies.next(KEEP_ALIVE_SECONDS))

    async def wait(self, seconds: float) -> Sequence[Received]:
        return _listed(await self._replies.wait(seconds))


class TurnOrder:
    def __init__(self, turn: FollowedTurn, after: Cursor) -> None:
        self._turn = turn
        self._stream = TurnStream(after)

    @property
    def is_incomplete(self) -> bool:
        return self._stream.is_incomplete

    @property
    def has_ended(self) -> bool:
        return self._stream.has_ended

    async def take(self, items: Sequence[Received]) -> Sequence[StreamedEvent]:
        return [shown for received in items for shown in self._stream.take(received)]

    async def watch(self) -> WatchedTurn:
        """Requests the turn's text from its worker. Raises the same errors as ``FollowedTurn``."""
        return await self._turn.watch(self._stream)

    async def complete(self, watched: WatchedTurn) -> Sequence[StreamedEvent]:
        """Accepts everything that was recorded before ``watch``. Raises the same errors as ``watch``."""
        return await self._turn.complete(self._stream, watched)

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
        """Fetches new events, because a lost event of a waiting turn leaves no gap."""
        try:
            return await self._turn.missed(self._stream)
        except (ServiceUnavailable, NotFound) as problem:
            _log.info("turn.not_completed", turn_id=self._turn.turn_id, problem=str(problem))
            return ()


def _listed(received: Received | None) -> Sequence[Received]:
    return () if received is None else (received,)
