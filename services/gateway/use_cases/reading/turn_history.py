"""Fetches the recorded events and the texts of finished steps that a turn's stream has missed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from libs.contracts.errors import ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.messages import Received
from libs.contracts.resources.turns import Turn, WatchedTurn
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import checked
from libs.service_defaults.internal_routes import decode_events
from services.gateway.domain.ports import Timeline
from services.gateway.domain.turn_stream import StreamedEvent, TurnStream, as_received

_log = structlog.get_logger("gateway.turns")
_RUNTIME: Final = "runtime"


@dataclass(frozen=True, slots=True)
class FollowedTurn:
    """A turn and its reader."""

    session_id: str
    turn_id: str
    identity: Identity

    @property
    def path(self) -> str:
        """The turn's path in the runtime's internal API."""
        return f"/internal/sessions/{self.session_id}/turns/{self.turn_id}"


@dataclass(frozen=True, slots=True)
class TurnHistory:
    log: Timeline
    upstreams: UpstreamClient

    async def state(self, turn: FollowedTurn) -> Turn:
        """Returns the turn's current state. Raises ``NotFound`` and ``ServiceUnavailable``."""
        return await self.upstreams.read(Turn, _RUNTIME, turn.path, turn.identity)

    async def watch(self, turn: FollowedTurn, stream: TurnStream) -> WatchedTurn:
        """Requests the turn's text. Within a second, its worker starts to send the current step's text from the
        beginning.

        Raises ``NotFound`` if the turn doesn't exist or the caller can't see it, and ``ServiceUnavailable``.
        """
        params = {"after_step": stream.at.step - 1}
        answer = await self.upstreams.request("POST", _RUNTIME, f"{turn.path}/watch", turn.identity, params=params)
        return WatchedTurn.model_validate_json(checked(answer))

    async def missed(self, turn: FollowedTurn, stream: TurnStream) -> list[StreamedEvent]:
        """Gives the stream the events after its position. Returns the events to send now. Raises like ``state``."""
        events = await self._recorded(turn, stream.at.sequence)
        return [shown for event in _of_turn(events) for shown in stream.take(event)]

    async def complete(self, turn: FollowedTurn, stream: TurnStream, watched: WatchedTurn) -> list[StreamedEvent]:
        """Gives the stream everything recorded before the turn was watched. Returns the events to send now."""
        after, through = stream.at.sequence, watched.sequence
        events = list(await self._recorded(turn, after)) if after < through else []
        are_missing = sum(event.envelope.sequence <= through for event in events) < through - after
        if are_missing:
            # Of two events with the same sequence, the later one counts: it replaced an end that was never sent.
            events += await self._logged(turn, after)
        return stream.take_history(_of_turn(events), watched.texts, through, is_all=are_missing)

    async def _logged(self, turn: FollowedTurn, after: int) -> Sequence[Received]:
        """Returns the events from the log, in case the runtime has deleted them."""
        try:
            found = await self.log.turn(turn.identity.company_id, turn.turn_id, after_sequence=after)
        except ServiceUnavailable as problem:
            _log.info("turn.log_unreachable", turn_id=turn.turn_id, problem=str(problem))
            return ()
        return [as_received(event) for event in found]

    async def _recorded(self, turn: FollowedTurn, after: int) -> Sequence[Received]:
        """Returns the events from the runtime, which is always current but only keeps them for some days."""
        params = {"after": after}
        answer = await self.upstreams.request("GET", _RUNTIME, f"{turn.path}/events", turn.identity, params=params)
        return decode_events(checked(answer))


def _of_turn(events: Sequence[Received]) -> Iterator[Received]:
    # Excludes the outcome of a cancel command, whose subject is also the turn.
    return (event for event in events if event.envelope.type.startswith("aes.runtime.turn."))
