"""Reads a turn for a reader of its stream."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from libs.contracts.error_catalogue import CancelReason
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Envelope, Event, Received
from libs.contracts.resources.turns import TURN_ENDS, TurnCancelled, TurnCompleted, TurnFailed, WatchedTurn
from libs.contracts.timestamps import now_text
from libs.eventing import Outbox
from services.runtime.adapters.postgres.watched_turns import PostgresWatchedTurns
from services.runtime.domain.turns import TurnEnd

_TERMINAL = frozenset(event.TYPE for event in TURN_ENDS)


@dataclass(frozen=True, slots=True)
class ReadTurnStream:
    """Reads turns for stream readers. ``on_watch`` is called with each watched turn and its request count."""

    turns: PostgresWatchedTurns
    outbox: Outbox
    source: str
    on_watch: Callable[[str, int], None]

    async def watch(self, session_id: str, turn_id: str, caller: Identity, *, after_step: int) -> WatchedTurn | None:
        """Marks the turn as watched, unless it has ended. Returns the turn, or None if the caller may not see it."""
        found = await self.turns.watch(session_id, turn_id, caller, after_step=after_step)
        if found is None:
            return None
        turn, watches = found
        if watches is not None:
            self.on_watch(turn_id, watches)
        return turn

    async def events(self, session_id: str, turn_id: str, caller: Identity, *, after: int) -> Sequence[Received]:
        """Returns the turn's events above sequence number ``after``, or none if the caller may not see the turn.

        Turns are retained longer than events. For an old turn, only the terminal event is rebuilt and returned.
        """
        end = await self.turns.end(session_id, turn_id, caller)
        if end is None:
            return ()
        stored = await self.outbox.events(turn_id, caller.company_id, after=after)
        events = [Received(message.envelope(self.source), message.payload) for message in stored]
        has_ended = any(event.envelope.type in _TERMINAL for event in events)
        if has_ended or end.sequence <= after or (terminal := _terminal(session_id, turn_id, end)) is None:
            return events
        return [*events, self._made_anew(turn_id, caller, end, terminal)]

    def _made_anew(self, turn_id: str, caller: Identity, end: TurnEnd, event: Event) -> Received:
        envelope = Envelope(
            id=new_id(),
            type=event.TYPE,
            source=self.source,
            subject=turn_id,
            time=now_text(),
            correlation_id=end.correlation_id,
            causation_id=turn_id,
            company_id=caller.company_id,
            sequence=end.sequence,
        )
        return Received(envelope, event.encode())


def _terminal(session_id: str, turn_id: str, end: TurnEnd) -> Event | None:
    """Rebuilds the terminal event from the turn's row. Returns None if the turn hasn't ended."""
    if end.reply is not None:
        return TurnCompleted.model_validate(end.reply)
    if end.error is not None:
        return TurnFailed.model_validate({"session_id": session_id, "turn_id": turn_id, "error": end.error})
    if end.status == "cancelled":
        return TurnCancelled(session_id=session_id, turn_id=turn_id, reason=CancelReason.REQUESTED)
    return None
