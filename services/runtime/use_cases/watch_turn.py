"""Marks a turn as watched, so that the worker that runs it sends its text."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.contracts.api.sessions import WatchedTurn
from libs.contracts.identity import Identity
from services.runtime.domain.ports import WatchedTurns


@dataclass(frozen=True, slots=True)
class WatchTurn:
    """``on_watch`` is told of the turn and the number of its requests: it may run in this very process.

    Any other worker finds the mark when it next reconciles its turns, within a second.
    """

    turns: WatchedTurns
    on_watch: Callable[[str, int], None]

    async def __call__(self, session_id: str, turn_id: str, caller: Identity, *, after_step: int) -> WatchedTurn | None:
        """None when there is no such turn for the caller. A turn that has ended is not marked."""
        found = await self.turns.watch(session_id, turn_id, caller, after_step=after_step)
        if found is None:
            return None
        turn, watches = found
        if watches is not None:
            self.on_watch(turn_id, watches)
        return turn
