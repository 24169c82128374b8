"""Cancels a queued, running or waiting turn."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from libs.contracts.error_catalogue import CancelReason
from libs.contracts.errors import Conflict
from libs.contracts.identifiers import id_of
from libs.contracts.messages import CommandContext
from libs.contracts.resources import turns
from libs.contracts.resources.turns import CancelTurnAccepted
from libs.eventing import Transaction
from services.runtime.domain.sessions import require, writable
from services.runtime.use_cases.sessions import OpenWriter

_EVENTS: Final = 2


@dataclass(frozen=True, slots=True)
class CancelTurn:
    """Cancels a turn, unless it has just ended. ``on_cancelled`` is called just before the commit."""

    open_writer: OpenWriter
    on_cancelled: Callable[[], None]

    async def __call__(self, transaction: Transaction, command: turns.CancelTurn, context: CommandContext) -> None:
        writer = self.open_writer(transaction)
        session = writable(await writer.lock(id_of(command.session_id, "session")), context.identity)
        turn = require("turn", await writer.turn(session.id, id_of(command.turn_id, "turn")))
        if turn.status not in ("queued", "running", "waiting"):
            raise Conflict(f"The turn is already {turn.status}.")
        spent = await writer.cancel([turn], _EVENTS)
        transaction.drafts.append(turn.cancelled(CancelReason.REQUESTED, spent[turn.id]))
        transaction.emit(
            CancelTurnAccepted(session_id=turn.session_id, turn_id=turn.id),
            subject=turn.id,
            owner_id=session.owner_id,
            sequence=turn.sequence + _EVENTS,
        )
        self.on_cancelled()
