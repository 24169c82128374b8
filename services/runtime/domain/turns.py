"""Turns on their way: submitted, claimed by a worker, ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from libs.contracts.errors import ServiceError
from libs.contracts.identity import Identity
from libs.contracts.messages import Event
from libs.eventing import MessageContext
from services.runtime.domain.conversation import JsonObject, UserMessage


@dataclass(frozen=True, slots=True)
class Submission:
    """A message that someone wants answered; its command's id becomes the turn's id.

    ``blocks`` is None for content that was given as plain text. ``fault`` is what is wrong with the content as
    others see it, who may say something else when the command comes again: it only counts the first time.
    """

    turn_id: str
    session_id: str
    caller: Identity
    message_context: MessageContext
    stream: bool
    question: UserMessage
    blocks: list[JsonObject] | None
    fault: ServiceError | None = None


@dataclass(frozen=True, slots=True)
class ClaimedTurn:
    """A turn that this worker holds. Whatever is written for it is guarded by ``fence``.

    ``seconds_left`` until the deadline, at the moment of the claim.
    """

    id: str
    session_id: str
    position: int
    attempt: int
    fence: int
    user_message_id: str
    caller: Identity
    message_context: MessageContext
    stream: bool
    seconds_left: float


@dataclass(frozen=True, slots=True)
class TakenIn:
    """The submission is a turn now; ``claimed`` when this worker is to run it at once."""

    claimed: ClaimedTurn | None


@dataclass(frozen=True, slots=True)
class AlreadyKnown:
    """A redelivery: the command has a turn or an outcome already, and nothing was changed."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The command's rejection has been recorded."""

    error: ServiceError


IntakeResult = TakenIn | AlreadyKnown | Refused


class OutcomeKind(StrEnum):
    COMPLETED = "completed"
    FAILED = "failed"
    RELEASED = "released"
    """A cancelled turn's execution has stopped."""
    HANDED_BACK = "handed_back"
    """This worker goes; any other may take the turn over at once."""


@dataclass(frozen=True, slots=True)
class TurnOutcome:
    """How this worker's hold on a turn ends. ``event`` and ``payload`` (its bytes) for a terminal state.

    ``leading``: events of the same subject that go before it.
    """

    turn: ClaimedTurn
    kind: OutcomeKind
    event: Event | None = None
    payload: bytes | None = None
    message_id: str | None = None
    text: str = ""
    usage: JsonObject | None = None
    final_step: int = 0
    final_answer: JsonObject | None = None
    error: JsonObject | None = None
    leading: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class CommitResult:
    """``won`` is false when someone else ended or took the turn first. ``following``: the session's next turn,
    claimed for this worker."""

    won: bool
    following: ClaimedTurn | None = None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A model answer (``call_id`` empty) or a tool result to be recorded, with the events that tell of it."""

    turn: ClaimedTurn
    number: int
    call_id: str
    kind: str
    payload: JsonObject
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class OrphanedTurn:
    """A turn that needs a worker or an end, found by looking over the live ones.

    ``lost_attempts`` would be its count of attempts lost to dead workers if it were taken over now.
    ``worker_id`` is None when it was handed back.
    """

    turn: ClaimedTurn
    worker_id: str | None
    lost_attempts: int
    overdue: bool
    cancelled: bool


@dataclass(frozen=True, slots=True)
class TurnSnapshot:
    """What a worker sees when it looks over the live turns.

    ``held``: fence and status of the turns that the database says are this worker's. ``strays``: turns of dead
    workers, handed back, unknown to the worker that has them, or long past their deadline. ``claimable``: idle
    sessions with queued turns, longest waiting first. ``deleting``: sessions whose deletion is not finished.
    """

    held: dict[str, tuple[int, str]]
    strays: tuple[OrphanedTurn, ...]
    claimable: tuple[str, ...]
    deleting: tuple[str, ...]
    queued: int
