from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Final

from libs.contracts.commands.runtime import ExecuteTurn
from libs.contracts.errors import InvalidRequest
from libs.contracts.identity import Identity
from libs.eventing import CommandSender
from services.gateway.domain.turn_stream import Cursor, StreamedEvent, TurnStream
from services.gateway.use_cases.turn_follower import TurnFollower
from services.gateway.use_cases.turn_history import FollowedTurn, TurnHistory

_ENDED: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class FollowTurn:
    """Streams a turn from a cursor on: past events first, then live ones."""

    bus: CommandSender
    history: TurnHistory

    async def __call__(
        self, identity: Identity, session_id: str, turn_id: str, after: Cursor
    ) -> AsyncGenerator[StreamedEvent | None, None]:
        """Yields ``None`` at first when there is nothing to send yet, then as ``TurnFollower`` does.

        Yields nothing at all when the cursor is at the turn's end. Raises ``NotFound``, and ``InvalidRequest`` for a
        cursor of another turn.
        """
        turn, stream = FollowedTurn(session_id, turn_id, identity), TurnStream(after)
        # Before the turn is watched: an event is either recorded by then, or arrives.
        async with self.bus.replies(turn_id, ExecuteTurn, identity) as replies:
            watched = await self.history.watch(turn, stream)
            if after.sequence > watched.sequence:
                raise InvalidRequest("The Last-Event-ID is not the id of an event of this turn.")
            shown = await self.history.complete(turn, stream, watched)
            if not shown:
                if watched.status in _ENDED:
                    return
                yield None
            for each in shown:
                yield each
            if not stream.has_ended:
                async for event in TurnFollower(turn, stream, replies, self.history).follow(None):
                    yield event
