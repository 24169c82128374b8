"""Resolves the actions of a waiting turn: by an answer, once, or when their time is over."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Final

from libs.contracts.commands import runtime as commands
from libs.contracts.errors import Conflict, NotFound, PermissionDenied
from libs.contracts.events.runtime import ResolveActionAccepted, TurnActionResolved
from libs.contracts.identity import Scope
from libs.contracts.messages import CommandContext
from libs.eventing import Transaction
from services.runtime.domain.actions import (
    ActionWriter,
    Answer,
    LockedAction,
    OpenActions,
    answer_of,
    expired_result,
    require_open,
)
from services.runtime.domain.sessions import LockedSession, OpenWriter, readable, valid_id, writable
from services.runtime.domain.turns import LockedTurn, result_event

Begin = Callable[[], AbstractAsyncContextManager[Transaction]]
_SCOPES: Final = {"approval": Scope.RUNTIME_APPROVE, "tool_result": Scope.RUNTIME_EXECUTE}


@dataclass(frozen=True, slots=True)
class ResolveAction:
    """``on_resolved`` is called just before the commit when the turn goes on, so that it is looked for right after.

    An approval may be given by everybody who may see the session and has the scope for approvals, a tool's result by
    those who may execute in it.
    """

    open_writer: OpenWriter
    open_actions: OpenActions
    on_resolved: Callable[[], None]

    async def __call__(
        self, transaction: Transaction, command: commands.ResolveAction, context: CommandContext
    ) -> None:
        """Taking the same answer again changes nothing. Raises Conflict for another one, or one that is too late."""
        writer, actions = self.open_writer(transaction), self.open_actions(transaction)
        locked = await writer.lock(valid_id("session", command.session_id))
        if locked is None and await writer.was_deleted(command.session_id, context.identity.company_id):
            raise Conflict("the session was deleted")
        session = readable(locked, context.identity)
        turn = await writer.turn(valid_id("turn", command.turn_id))
        if turn is None or turn.session_id != session.id:
            raise NotFound("there is no such turn")
        action = await actions.action(turn.id, valid_id("action", command.action_id))
        if action is None:
            raise NotFound("there is no such action")
        _require_permission(action, session, context)
        answer = answer_of(
            action.kind,
            decision=command.decision,
            reason=command.reason,
            output=command.output,
            error=command.error,
        )
        if action.answer_hash != answer.hash:
            if not session.active:
                raise Conflict("the session is being deleted")
            require_open(action, turn.status)
            by = context.identity.user_id
            if await _resolve(transaction, actions, turn, action, answer, by):
                self.on_resolved()
        transaction.emit(
            ResolveActionAccepted(session_id=session.id, turn_id=turn.id, turn=await actions.turn(turn.id)),
            # Not of the turn: its stream has the turn's own events.
            subject=context.command_id,
            owner_id=session.owner_id,
            sequence=1,
        )


@dataclass(frozen=True, slots=True)
class ExpireActions:
    """Resolves the actions of a turn whose time is over, as failed calls; any worker may do it."""

    begin: Begin
    open_writer: OpenWriter
    open_actions: OpenActions
    on_resolved: Callable[[], None]

    async def __call__(self, session_id: str, turn_id: str) -> None:
        async with self.begin() as transaction:
            writer, actions = self.open_writer(transaction), self.open_actions(transaction)
            if await writer.lock(session_id) is None:
                return
            goes_on = False
            for action in await actions.expired(turn_id):
                # Read again for each: resolving one takes numbers for its events.
                turn = await writer.turn(turn_id)
                if turn is not None:
                    goes_on = await _resolve(transaction, actions, turn, action, None, "")
            if goes_on:
                self.on_resolved()


async def _resolve(
    transaction: Transaction,
    actions: ActionWriter,
    turn: LockedTurn,
    action: LockedAction,
    answer: Answer | None,
    by: str,
) -> bool:
    """Resolves an open action; no answer is its expiry. Whether the turn goes on."""
    result = expired_result(action) if answer is None else answer.result(action)
    resolved = TurnActionResolved(
        session_id=turn.session_id,
        turn_id=turn.id,
        action_id=action.id,
        kind=action.kind,
        call_id=action.call_id,
        decision="expired" if answer is None else answer.decision,
        by=by,
    )
    transaction.drafts.append(turn.draft(resolved, 1))
    if result is not None:
        transaction.drafts.append(turn.draft(result_event(turn.session_id, turn.id, action.step, result), 2))
    return await actions.resolve(action, answer, result, by=by, events=1 if result is None else 2)


def _require_permission(action: LockedAction, session: LockedSession, context: CommandContext) -> None:
    if action.kind == "tool_result":
        writable(session, context.identity)
    scope = _SCOPES[action.kind]
    if not context.identity.allows(scope):
        raise PermissionDenied(f"this takes the scope {scope.value}")
