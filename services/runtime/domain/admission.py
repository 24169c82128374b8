"""Which submissions become turns: ownership, the session's state, bounds of the backlog, place in the order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from libs.contracts.errors import Conflict, NotFound, RateLimited, ServiceError
from services.runtime.domain.agent_ports import AgentSpec
from services.runtime.domain.turns import Submission

CheckVision = Callable[[str], None]
"""Raises VisionNotSupported for a model that is known to take text only."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many turns may wait or run at once; ``retry_after`` in seconds is what a caller above it is told."""

    per_session: int = 20
    per_company: int = 1000
    retry_after: int = 2


@dataclass(frozen=True, slots=True)
class SessionState:
    """A session as it stands under its lock. ``agent`` only when a submission's content depends on it."""

    id: str
    company_id: str
    owner_id: str
    active: bool
    next_position: int
    agent: AgentSpec | None = None


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """What the database says under the locks of the sessions concerned.

    ``known``: commands that have a turn or an outcome. ``live``: turns that wait, run or are being stopped, by
    session and by company.
    """

    sessions: Mapping[str, SessionState]
    known: frozenset[str]
    live_in_session: Mapping[str, int]
    live_in_company: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Admission:
    """The submission becomes the turn at ``position``; ``claimed``: run here at once."""

    submission: Submission
    position: int
    claimed: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    submission: Submission
    error: ServiceError


@dataclass(frozen=True, slots=True)
class Repeat:
    submission: Submission


Decision = Admission | Refusal | Repeat
Decide = Callable[[Sequence[Submission], AdmissionView], list[Decision]]


class AdmissionPolicy:
    """Decides a batch in the order of its submissions; each sees what those before it were given."""

    def __init__(self, backlog: Backlog, free_slots: Callable[[], int], check_vision: CheckVision) -> None:
        self._backlog = backlog
        self._free_slots = free_slots
        self._check_sight = check_vision

    def decide(self, submissions: Sequence[Submission], view: AdmissionView) -> list[Decision]:
        batch = _Batch(view, self._free_slots())
        return [self._decide_one(submission, batch) for submission in submissions]

    def _decide_one(self, submission: Submission, batch: _Batch) -> Decision:
        if submission.turn_id in batch.known:
            return Repeat(submission)
        batch.known.add(submission.turn_id)
        try:
            session = self._admissible(submission, batch)
        except ServiceError as error:
            return Refusal(submission, error)
        return batch.admit(submission, session)

    def _admissible(self, submission: Submission, batch: _Batch) -> SessionState:
        caller = submission.caller
        session = batch.sessions.get(submission.session_id)
        if session is None or session.company_id != caller.company_id or not caller.may_write_of(session.owner_id):
            raise NotFound("there is no such session")
        if not session.active:
            raise Conflict("the session is being deleted")
        if submission.fault is not None:
            raise submission.fault
        if batch.in_session.get(session.id, 0) >= self._backlog.per_session:
            raise RateLimited(
                f"the session has {self._backlog.per_session} messages in work already",
                retry_after=self._backlog.retry_after,
            )
        if batch.in_company.get(session.company_id, 0) >= self._backlog.per_company:
            raise RateLimited(
                f"the company has {self._backlog.per_company} messages in work already",
                retry_after=self._backlog.retry_after,
            )
        if submission.question.has_image and session.agent is not None:
            self._check_sight(session.agent.model)
        return session


class _Batch:
    """The view, moved on by what the batch has been given so far."""

    def __init__(self, view: AdmissionView, free_slots: int) -> None:
        self.sessions = view.sessions
        self.known = set(view.known)
        self.in_session = dict(view.live_in_session)
        self.in_company = dict(view.live_in_company)
        self._positions: dict[str, int] = {}
        self._free_slots = free_slots

    def admit(self, submission: Submission, session: SessionState) -> Admission:
        ahead = self.in_session.get(session.id, 0)
        position = self._positions.get(session.id, session.next_position)
        claimed = ahead == 0 and self._free_slots > 0
        self._free_slots -= claimed
        self.in_session[session.id] = ahead + 1
        self.in_company[session.company_id] = self.in_company.get(session.company_id, 0) + 1
        self._positions[session.id] = position + 1
        return Admission(submission, position, claimed)
