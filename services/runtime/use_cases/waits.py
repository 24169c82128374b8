"""Resolves a turn's waits, with the caller's answer or, when a wait is due, with the service's own."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.contracts.errors import Conflict, PermissionDenied
from libs.contracts.identifiers import id_of
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext
from libs.contracts.resources import actions
from libs.contracts.resources.actions import ResolveActionAccepted
from libs.contracts.resources.turns import TurnActionResolved
from libs.eventing import Outbox, Transaction
from services.runtime.adapters.postgres.session_reads import turn_by_id
from services.runtime.adapters.postgres.waits import PostgresWaits
from services.runtime.domain.sessions import LockedSession, readable, require, writable
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import LockedTurn
from services.runtime.domain.waits import Answer, LockedWait, WaitKind, require_open
from services.runtime.domain.waits.kinds import KINDS
from services.runtime.use_cases.sessions import OpenWriter


@dataclass(frozen=True, slots=True)
class Waits:
    """Resolves waits. If the turn resumes, ``on_resumed`` is called just before the commit."""

    outbox: Outbox
    open_writer: OpenWriter
    on_resumed: Callable[[], None]

    async def resolve(self, transaction: Transaction, command: actions.ResolveAction, context: CommandContext) -> None:
        """Resolves a wait with a caller's answer. Repeating an answer has no effect.

        Raises Conflict for a different or late answer.
        """
        writer, waits = self.open_writer(transaction), PostgresWaits(transaction)
        locked = await writer.lock(id_of(command.session_id, "session"))
        if locked is None and await writer.was_deleted(command.session_id, context.identity.company_id):
            raise Conflict("The session was deleted.")
        session = readable(locked, context.identity)
        turn = require("turn", await writer.turn(session.id, id_of(command.turn_id, "turn")))
        wait = require("action", await waits.find(turn.id, id_of(command.action_id, "action")))
        kind = KINDS[wait.kind]
        _require_permission(kind, session, context.identity)
        answer = kind.answer(command)
        if wait.answer_hash != answer.hash:
            if not session.active:
                raise Conflict("The session is being deleted.")
            require_open(wait, turn.status)
            if await _resolve(transaction, waits, turn, wait, answer, context.identity.user_id):
                self.on_resumed()
        transaction.emit(
            ResolveActionAccepted(
                session_id=session.id, turn_id=turn.id, turn=await turn_by_id(transaction.connection, turn.id)
            ),
            # The turn isn't the subject, because this event must not appear in the turn's stream.
            subject=context.command_id,
            owner_id=session.owner_id,
            sequence=1,
        )

    async def resolve_due(self, session_id: str, turn_id: str) -> None:
        """Resolves a turn's waits that are due or expired. Any worker may do this."""
        async with self.outbox.transaction() as transaction:
            writer, waits = self.open_writer(transaction), PostgresWaits(transaction)
            if await writer.lock(session_id) is None:
                return
            resumes = False
            for wait in await waits.due(turn_id):
                # Read again for each wait, because resolving a wait uses event numbers.
                turn = await writer.turn(session_id, turn_id)
                if turn is not None:
                    resumes = await _resolve(transaction, waits, turn, wait, KINDS[wait.kind].own_answer(wait), "")
            if resumes:
                self.on_resumed()


async def _resolve(
    transaction: Transaction, waits: PostgresWaits, turn: LockedTurn, wait: LockedWait, answer: Answer, by: str
) -> bool:
    """Resolves the wait and emits its events. Returns whether the turn resumes."""
    result = KINDS[wait.kind].result(wait, answer)
    step = None if result is None else Step(wait.step, result)
    resolved = TurnActionResolved(
        session_id=turn.session_id,
        turn_id=turn.id,
        action_id=wait.id,
        kind=wait.kind,
        call_id=wait.call_id,
        decision=answer.decision,
        by=by,
    )
    events = [resolved, *(() if step is None else step.events(turn.session_id, turn.id))]
    transaction.drafts.extend(turn.draft(event, number) for number, event in enumerate(events, 1))
    return await waits.resolve(wait, answer, step, by=by, events=len(events))


def _require_permission(kind: WaitKind, session: LockedSession, caller: Identity) -> None:
    if not kind.readers_may_answer:
        writable(session, caller)
    if not caller.allows(kind.scope):
        raise PermissionDenied(f"This action requires the scope {kind.scope.value}.")
