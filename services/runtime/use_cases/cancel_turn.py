"""Cancels a turn that waits or runs: one guarded update decides against its completion."""

from __future__ import annotations

from collections.abc import Callable

from libs.contracts.commands.runtime import CancelTurn
from libs.contracts.errors import Conflict, NotFound
from libs.contracts.events.runtime import CancelTurnAccepted
from libs.eventing import CommandContext, Transaction
from services.runtime.domain import turn_events
from services.runtime.domain.sessions import OpenWriter, existing, writable

EVENTS = 2


class CancelTurnHandler:
    """``on_cancelled``: called just before the commit, so that a running execution is looked for right after."""

    def __init__(self, writer: OpenWriter, on_cancelled: Callable[[], None]) -> None:
        self._writer = writer
        self._on_cancelled = on_cancelled

    async def __call__(self, transaction: Transaction, command: CancelTurn, context: CommandContext) -> None:
        writer = self._writer(transaction)
        writable(await writer.lock(existing("session", command.session_id)), context.identity)
        turn = await writer.turn(existing("turn", command.turn_id))
        if turn is None or turn.session_id != command.session_id:
            raise NotFound("there is no such turn")
        if turn.status not in ("queued", "running"):
            raise Conflict(f"the turn is {turn.status} already")
        await writer.cancel([turn], EVENTS)
        transaction.drafts.append(turn_events.cancelled(turn, "cancelled on request", turn.sequence + 1))
        transaction.emit(
            CancelTurnAccepted(session_id=turn.session_id, turn_id=turn.id),
            subject=turn.id,
            sequence=turn.sequence + EVENTS,
        )
        if turn.status == "running":
            self._on_cancelled()
