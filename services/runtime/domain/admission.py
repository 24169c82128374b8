"""Decides which submissions become turns."""

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeVar

from libs.contracts.errors import Conflict, ErrorDetail, NotFound, QuotaExceeded, RateLimited, ServiceError
from libs.contracts.resources.turns import COMPANY_BACKLOG_FULL, SESSION_MOVED_ON, BlockedBy
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.budgets import BudgetState
from services.runtime.domain.models import ModelCatalogue
from services.runtime.domain.options import check_options
from services.runtime.domain.turns import Submission

T = TypeVar("T")
_BESIDE: Final = 8


class WorkerSlots:
    """A snapshot of a worker's slots. ``running`` counts the occupied slots by company.

    A company can occupy ``capacity`` slots. The worker has more, so that one company can't block the others.
    """

    def __init__(self, capacity: int, running: Mapping[str, int] | None = None) -> None:
        self._each = capacity
        self._running = Counter(running or {})
        self._free = capacity + max(capacity // _BESIDE, 1) - self._running.total() if capacity else 0

    def take(self, company_id: str) -> bool:
        """Takes a slot for the company. Returns False if no slot is free or the company has reached its maximum."""
        if self._free <= 0 or self._running[company_id] >= self._each:
            return False
        self._free -= 1
        self._running[company_id] += 1
        return True

    def assign_slots(self, waiting: Sequence[tuple[str, T]]) -> list[T]:
        """Returns the items that get a slot. The next slot always goes to the company with the fewest running turns."""
        queues: dict[str, list[T]] = {}
        for company_id, each in waiting:
            queues.setdefault(company_id, []).append(each)
        # Among companies with equally many running turns, the one that has waited longest comes first.
        order = [(self._running[company_id], number, company_id) for number, company_id in enumerate(queues)]
        heapq.heapify(order)
        served: Counter[str] = Counter()
        chosen: list[T] = []
        while order:
            _, number, company_id = heapq.heappop(order)
            if not self.take(company_id):
                continue
            chosen.append(queues[company_id][served[company_id]])
            served[company_id] += 1
            if served[company_id] < len(queues[company_id]):
                heapq.heappush(order, (self._running[company_id], number, company_id))
        return chosen


@dataclass(frozen=True, slots=True)
class Backlog:
    """The limits on live turns. A caller who exceeds one may retry after ``retry_after`` seconds."""

    per_session: int = 20
    per_company: int = 1000
    retry_after: int = 2


@dataclass(frozen=True, slots=True)
class SessionState:
    """The state of a locked session. ``agent`` is only set if a submission's validity depends on it."""

    id: str
    company_id: str
    owner_id: str
    active: bool
    next_position: int
    agent: AgentSpec | None = None


class Excess(NamedTuple):
    """The number of sessions by which a company exceeds its limit (``by``), and the error for callers."""

    by: int
    error: QuotaExceeded


@dataclass(frozen=True, slots=True)
class AdmissionView:
    """The state of the database while the affected sessions are locked.

    ``known`` contains the IDs of commands that already have a turn or an outcome. ``live_in_session`` counts unfinished
    turns, and ``live_in_company`` leaves out waiting ones. ``excess`` lists the companies that exceed their session
    limit, counting the sessions that the submissions create. ``blocked_by`` contains the waiting turns by session ID.
    """

    sessions: Mapping[str, SessionState]
    known: frozenset[str]
    live_in_session: Mapping[str, int]
    live_in_company: Mapping[str, int]
    exhausted: Sequence[BudgetState] = ()
    excess: Mapping[str, Excess] = field(default_factory=dict)
    blocked_by: Mapping[str, BlockedBy] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The submission becomes the turn at ``position``. A ``claimed`` turn starts immediately on this worker."""

    submission: Submission
    position: int
    claimed: bool


@dataclass(frozen=True, slots=True)
class Refused:
    submission: Submission
    error: ServiceError


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The command already has a turn or an outcome."""

    submission: Submission


Decision = Admitted | Refused | Duplicate


class AdmissionPolicy:
    """Decides on a batch of submissions. Each decision takes the earlier ones into account."""

    def __init__(self, backlog: Backlog, models: ModelCatalogue) -> None:
        self._backlog = backlog
        self._models = models

    def decide(self, submissions: Sequence[Submission], view: AdmissionView, slots: WorkerSlots) -> list[Decision]:
        batch = _Batch(view, slots)
        return [self._decide_one(submission, batch) for submission in submissions]

    def _decide_one(self, submission: Submission, batch: "_Batch") -> Decision:
        if submission.turn_id in batch.known:
            return Duplicate(submission)
        batch.known.add(submission.turn_id)
        try:
            session = self._admissible(submission, batch)
        except ServiceError as error:
            return Refused(submission, error)
        return batch.admit(submission, session)

    def _admissible(self, submission: Submission, batch: "_Batch") -> SessionState:
        caller = submission.caller
        session = batch.sessions.get(submission.session_id)
        if session is None or session.company_id != caller.company_id or not caller.may_write_of(session.owner_id):
            raise NotFound("There is no session with this ID.")
        if not session.active:
            raise Conflict("The session is being deleted.")
        if submission.request.position not in (None, batch.next_position(session)):
            raise _moved_on()
        if submission.validation_error is not None:
            raise submission.validation_error
        in_session, in_company = batch.in_session.get(session.id, 0), batch.in_company.get(session.company_id, 0)
        self._check_backlog("session", in_session, self._backlog.per_session)
        self._check_backlog("company", in_company, self._backlog.per_company, COMPANY_BACKLOG_FULL)
        if submission.begins is not None:
            batch.check_excess(session)
        for budget in batch.exhausted:
            if budget.applies_to(caller):
                raise budget.error()
        if submission.question.has_image and session.agent is not None:
            self._models.require_vision(session.agent.model)
        if submission.request.options is not None and session.agent is not None:
            check_options(submission.request.options, session.agent, self._models)
        return session

    def _check_backlog(self, of: str, live: int, limit: int, detail: str | None = None) -> None:
        """Raises ``RateLimited`` if ``live`` turns reach the limit. ``detail`` is the type of the error's detail."""
        if live >= limit:
            message = (
                f"The {of} has reached its maximum number of unfinished turns ({limit}). Try again after one has ended."
            )
            details = [ErrorDetail(loc=[], type=detail, message=message)] if detail else None
            raise RateLimited(message, details=details, retry_after=self._backlog.retry_after)


def _moved_on() -> Conflict:
    message = "The session has newer turns, so this turn can't have the requested position."
    return Conflict(message, details=[ErrorDetail(loc=["position"], type=SESSION_MOVED_ON, message=message)])


class _Batch:
    """The admission view, updated with the batch's decisions so far."""

    def __init__(self, view: AdmissionView, slots: WorkerSlots) -> None:
        self.sessions = view.sessions
        self.known = set(view.known)
        self.in_session = dict(view.live_in_session)
        self.in_company = dict(view.live_in_company)
        self.exhausted = view.exhausted
        self._excess = view.excess
        self._refused: dict[str, set[str]] = {}
        self._positions: dict[str, int] = {}
        self._slots = slots

    def check_excess(self, session: SessionState) -> None:
        """Raises ``QuotaExceeded`` if the session is new and above the company's limit."""
        excess = self._excess.get(session.company_id)
        refused = self._refused.setdefault(session.company_id, set())
        if excess is not None and (session.id in refused or len(refused) < excess.by):
            refused.add(session.id)
            raise excess.error

    def next_position(self, session: SessionState) -> int:
        return self._positions.get(session.id, session.next_position)

    def admit(self, submission: Submission, session: SessionState) -> Admitted:
        ahead = self.in_session.get(session.id, 0)
        position = self.next_position(session)
        claimed = ahead == 0 and self._slots.take(session.company_id)
        self.in_session[session.id] = ahead + 1
        self.in_company[session.company_id] = self.in_company.get(session.company_id, 0) + 1
        self._positions[session.id] = position + 1
        return Admitted(submission.owned_by(session.owner_id), position, claimed)
