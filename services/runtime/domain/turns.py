"""Turns and their events. A turn has the ID of its command, which is the cause of the turn's events."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from libs.contracts.error_catalogue import CancelReason
from libs.contracts.errors import InternalError, ServiceError, cause_of
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandRejected, Draft, Event, MessageContext
from libs.contracts.replies import Usage
from libs.contracts.resources.turns import (
    BlockedBy,
    ExecuteTurn,
    TurnCancelled,
    TurnFailed,
    TurnQueued,
    TurnRequest,
    TurnRestarted,
    TurnStarted,
)
from libs.contracts.topics import RUNTIME_EVENTS
from libs.json_text import read_json, write_json
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.conversation import JsonObject, Message, UserMessage
from services.runtime.domain.models import TurnSpending
from services.runtime.domain.steps import Step
from services.runtime.domain.waits import NewWait

FIRST_SEQUENCE: Final = 1
"""The sequence number of a turn's first event."""
# These fields of the reply are stored in separate columns of the turn's row.
_REPLY_COLUMNS: Final = ("message_id", "correlation_id", "session_id", "turn_id", "user_message_id", "usage")


@dataclass(frozen=True, slots=True)
class Submission:
    """A message that was submitted to a session. If it's admitted, a turn answers it.

    ``blocks`` is None for plain text. ``validation_error`` only counts for the first delivery, because the service that
    reported it may respond differently later. If the session doesn't exist, ``begins`` is created.
    """

    turn_id: str
    session_id: str
    user_message_id: str
    caller: Identity
    message_context: MessageContext
    request: TurnRequest
    question: UserMessage
    blocks: list[JsonObject] | None
    validation_error: ServiceError | None = None
    begins: NewSession | None = None

    @property
    def depends_on_agent(self) -> bool:
        """Whether the session's agent must be checked at admission."""
        options = self.request.options
        return self.question.has_image or (options is not None and options.change_something)

    def owned_by(self, owner_id: str) -> "Submission":
        """Returns the submission with the session's owner, who may see its events."""
        return replace(self, message_context=replace(self.message_context, owner_id=owner_id))

    def queued(self, position: int, blocked_by: BlockedBy | None = None) -> Draft:
        return self._draft(
            TurnQueued(
                session_id=self.session_id,
                turn_id=self.turn_id,
                position=position,
                user_message_id=self.user_message_id,
                blocked_by=blocked_by,
            )
        )

    def rejected(self, error: ServiceError) -> Draft:
        # Only the caller may see a rejection, because the session may not exist or may belong to another user.
        return self.owned_by(self.caller.user_id)._draft(
            CommandRejected(error=error.info()), type=ExecuteTurn.rejected_type(), topic=RUNTIME_EVENTS.name
        )

    def _draft(self, event: Event, *, type: str | None = None, topic: str | None = None) -> Draft:
        return Draft(
            event, subject=self.turn_id, context=self.message_context, sequence=FIRST_SEQUENCE, type=type, topic=topic
        )


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn that this worker holds. The fencing token ``fence`` guards every write.

    At the time of the claim, ``seconds_left`` is the time until the deadline, ``sequence`` is the number of the turn's
    latest event, and ``worked`` is the execution time so far. If ``stream`` is set, a reader follows the turn's text.
    If ``after_wait`` is set, no call has started since the turn's wait. ``lost_attempts`` counts crashed executions.
    """

    id: str
    session_id: str
    position: int
    attempt: int
    fence: int
    user_message_id: str
    caller: Identity
    message_context: MessageContext
    request: TurnRequest
    stream: bool
    seconds_left: float
    sequence: int
    after_wait: bool = False
    worked: float = 0.0
    lost_attempts: int = 0

    def draft(self, event: Event, sequence: int, encoded: bytes | None = None, cause: str | None = None) -> Draft:
        return Draft(
            event, subject=self.id, context=self.message_context, sequence=sequence, encoded=encoded, cause=cause
        )

    def started(self) -> Draft:
        event = TurnStarted(
            session_id=self.session_id, turn_id=self.id, attempt=self.attempt, user_message_id=self.user_message_id
        )
        return self.draft(event, self.sequence)

    def restarted(self, resumed_from_step: int) -> Draft:
        event = TurnRestarted(
            session_id=self.session_id, turn_id=self.id, attempt=self.attempt, resumed_from_step=resumed_from_step
        )
        return self.draft(event, self.sequence)


@dataclass(frozen=True, slots=True)
class LockedTurn:
    """A turn whose session is locked. ``sequence`` is the number of its latest event."""

    id: str
    session_id: str
    status: str
    message_context: MessageContext
    sequence: int

    def cancelled(self, reason: CancelReason, spent: TurnSpending) -> Draft:
        event = TurnCancelled(
            session_id=self.session_id,
            turn_id=self.id,
            reason=reason,
            usage=spent.usage,
            **spent.attribution.model_dump(),
        )
        return self.draft(event, 1)

    def draft(self, event: Event, number: int) -> Draft:
        """Creates a draft of an event. ``number`` counts the turn's events in this transaction from 1."""
        return Draft(event, subject=self.id, context=self.message_context, sequence=self.sequence + number)


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """The end of a turn, as stored. Without ``reply`` and ``error``, the turn was cancelled or hasn't ended."""

    status: str
    sequence: int
    correlation_id: str
    reply: JsonObject | None
    error: JsonObject | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    turn: ClaimedTurn
    step: Step
    events: tuple[Event, ...] = ()


class OutcomeKind(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    WAITING = "waiting"
    """The turn is suspended until its ``waits`` are resolved, and no longer has a worker."""
    RELEASED = "released"
    """A cancelled turn's execution has stopped."""
    HANDED_BACK = "handed_back"
    """This worker is stopping, and another worker may take over the turn."""
    CRASHED = "crashed"
    """An unexpected exception ended the execution. The turn is handed back for another attempt."""


RELEASING: Final = frozenset({OutcomeKind.RELEASED, OutcomeKind.HANDED_BACK, OutcomeKind.CRASHED})
"""The outcomes that only take the turn from its worker."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """The transition of a claimed turn to a terminal or waiting state, or back to the queue.

    A terminal transition has an ``event``, after any ``preceding`` ones. ``usage`` covers the whole turn if it
    completed, but only unrecorded steps if it failed. ``toolsets`` is only set for a turn that completed in one step,
    which isn't recorded. ``sequence``, the number of the turn's latest event, is only known if the turn started on
    admission.
    """

    turn: ClaimedTurn
    kind: OutcomeKind
    event: Event | None = None
    payload: bytes | None = None
    message_id: str | None = None
    text: str = ""
    usage: Usage | None = None
    toolsets: JsonObject | None = None
    error: JsonObject | None = None
    preceding: tuple[Event, ...] = ()
    waits: tuple[NewWait, ...] = ()
    sequence: int | None = None
    calls_made: tuple[Message, ...] = ()
    cause: str | None = None


def failed(turn: ClaimedTurn, error: ServiceError, unrecorded: Usage | None = None) -> TurnOutcome:
    """Returns the outcome of a failed turn. ``unrecorded`` is the usage of an answer that wasn't recorded as a step."""
    info = error.info(turn.message_context.correlation_id)
    event = TurnFailed(session_id=turn.session_id, turn_id=turn.id, error=info)
    error_json = event.error.model_dump(mode="json")
    cause = error.cause if isinstance(error, InternalError) else None
    return TurnOutcome(turn, OutcomeKind.FAILED, event=event, usage=unrecorded, error=error_json, cause=cause)


def crashed(turn: ClaimedTurn, message: str, problem: Exception, attempts: int) -> TurnOutcome:
    """Returns the outcome of an unexpected exception: a retry, or a failure after the last of ``attempts``."""
    if turn.lost_attempts + 1 < attempts:
        return TurnOutcome(turn, OutcomeKind.CRASHED)
    return failed(turn, InternalError(message, cause=cause_of(problem)))


@dataclass(frozen=True, slots=True)
class CommitResult:
    """The result of committing an outcome. ``applied`` is false if another worker or a cancellation was faster.

    ``next_turn`` is the session's next turn if this worker has claimed it.
    """

    applied: bool
    next_turn: ClaimedTurn | None = None


@dataclass(frozen=True, slots=True)
class OrphanedTurn:
    """A live turn whose worker is dead or whose deadline has long passed.

    If the turn was handed back, ``worker_id`` is None and ``lost_attempts`` leaves out the current attempt.
    """

    turn: ClaimedTurn
    worker_id: str | None
    lost_attempts: int
    overdue: bool
    cancelled: bool


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    """A snapshot of the live turns in the database.

    ``held`` maps this worker's turns to their fencing token and status, and ``watches`` to the number of requests for
    their text. ``claimable`` lists the company and session of idle sessions with queued turns. ``deleting`` are
    sessions whose deletion is unfinished. ``due`` lists the session and ID of turns with a due wait.
    """

    held: dict[str, tuple[int, str]]
    watches: dict[str, int]
    orphans: tuple[OrphanedTurn, ...]
    claimable: tuple[tuple[str, str], ...]
    deleting: tuple[str, ...]
    queued: int
    due: tuple[tuple[str, str], ...] = ()


def stored_reply(payload: bytes) -> bytes:
    """Returns the part of a ``turn.completed`` payload that is stored in the turn's ``reply``."""
    reply: JsonObject = read_json(payload)
    for name in _REPLY_COLUMNS:
        del reply[name]
    del reply["response"]["content"]
    return write_json(reply)


def whole_reply(stored: str, text: str, turn: Mapping[str, Any]) -> JsonObject:
    """Rebuilds the ``turn.completed`` payload from the stored reply, the message's ``text`` and columns of ``turn``."""
    reply: JsonObject = read_json(stored)
    return {
        **{name: turn[name] for name in _REPLY_COLUMNS},
        **reply,
        "response": {"content": text, **reply["response"]},
    }
