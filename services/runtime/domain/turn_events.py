"""The events of a turn: the turn is their subject, its command their cause."""

from __future__ import annotations

from libs.contracts.commands.runtime import ExecuteTurn
from libs.contracts.errors import ServiceError
from libs.contracts.events.runtime import (
    TurnCancelled,
    TurnFailed,
    TurnQueued,
    TurnRestarted,
    TurnStarted,
)
from libs.contracts.messages import CommandRejected, Event
from libs.contracts.topics import RUNTIME_EVENTS
from libs.eventing import EventDraft, MessageContext
from services.runtime.domain.sessions import LockedTurn
from services.runtime.domain.turns import ClaimedTurn, Submission

FIRST = 1
"""The sequence of a turn's first event, turn.queued or turn.started."""


def turn_message_context(turn_id: str, company_id: str, correlation_id: str, traceparent: str | None) -> MessageContext:
    return MessageContext(company_id, correlation_id, turn_id, traceparent)


def draft(turn: ClaimedTurn, event: Event, sequence: int, encoded: bytes | None = None) -> EventDraft:
    return EventDraft(event, subject=turn.id, context=turn.message_context, sequence=sequence, encoded=encoded)


def queued(submission: Submission, position: int, user_message_id: str) -> EventDraft:
    event = TurnQueued(
        session_id=submission.session_id,
        turn_id=submission.turn_id,
        position=position,
        user_message_id=user_message_id,
    )
    return EventDraft(event, subject=submission.turn_id, context=submission.message_context, sequence=FIRST)


def rejected(submission: Submission, error: ServiceError) -> EventDraft:
    return EventDraft(
        CommandRejected(error=error.info()),
        subject=submission.turn_id,
        context=submission.message_context,
        sequence=FIRST,
        type=ExecuteTurn.rejected_type(),
        topic=RUNTIME_EVENTS.name,
    )


def started(turn: ClaimedTurn, sequence: int) -> EventDraft:
    event = TurnStarted(
        session_id=turn.session_id,
        turn_id=turn.id,
        attempt=turn.attempt,
        user_message_id=turn.user_message_id,
    )
    return draft(turn, event, sequence)


def restarted(turn: ClaimedTurn, resumed_from_step: int, sequence: int) -> EventDraft:
    event = TurnRestarted(
        session_id=turn.session_id,
        turn_id=turn.id,
        attempt=turn.attempt,
        resumed_from_step=resumed_from_step,
    )
    return draft(turn, event, sequence)


def failed(turn: ClaimedTurn, error: ServiceError) -> TurnFailed:
    return TurnFailed(
        session_id=turn.session_id, turn_id=turn.id, error=error.info(turn.message_context.correlation_id)
    )


def cancelled(turn: LockedTurn, reason: str, sequence: int) -> EventDraft:
    event = TurnCancelled(session_id=turn.session_id, turn_id=turn.id, reason=reason)
    return EventDraft(event, subject=turn.id, context=turn.message_context, sequence=sequence)
