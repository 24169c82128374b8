"""Admission of a batch."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from libs.contracts.errors import Conflict, NotFound, QuotaExceeded, RateLimited, quota_exceeded
from libs.contracts.identity import Identity
from libs.contracts.resources.turns import SESSION_MOVED_ON, TurnRequest
from libs.quotas import Excess
from services.runtime.domain.admission import (
    AdmissionPolicy,
    AdmissionView,
    Admitted,
    Backlog,
    Decision,
    Duplicate,
    Refused,
    SessionState,
    WorkerSlots,
)
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.beginnings import NewSession
from services.runtime.domain.turns import Submission
from tests.support.runtime_turns import submission


def session(name: str = "session", *, active: bool = True, next_position: int = 0) -> SessionState:
    return SessionState(name, "company", "user", active, next_position)


def view(
    *sessions: SessionState,
    known: tuple[str, ...] = (),
    live: Mapping[str, int] | None = None,
    company: int = 0,
) -> AdmissionView:
    return AdmissionView({s.id: s for s in sessions}, frozenset(known), live or {}, {"company": company})


def decided(
    batch: Sequence[Submission], view: AdmissionView, *, free: int = 10, per_session: int = 2, per_company: int = 3
) -> list[Decision]:
    backlog = Backlog(per_session, per_company)
    policy = AdmissionPolicy(backlog, lambda _model: None, lambda _options, _agent: None)
    return policy.decide(batch, view, WorkerSlots(free))


def kinds(decisions: list[Decision]) -> list[object]:
    return [type(d.error) if isinstance(d, Refused) else type(d) for d in decisions]


def test_positions_count_on_within_a_batch_and_only_the_first_is_claimed() -> None:
    batch = [submission("a"), submission("b"), submission("a")]
    decisions = decided(batch, view(session("a", next_position=7), session("b")))
    assert [(d.position, d.claimed) for d in decisions if isinstance(d, Admitted)] == [
        (7, True),
        (0, True),
        (8, False),
    ]


def test_a_busy_session_queues_and_so_does_a_full_worker() -> None:
    decisions = decided(
        [submission("busy"), submission("a"), submission("b")],
        view(session("busy"), session("a"), session("b"), live={"busy": 1}),
        free=1,
    )
    assert [d.claimed for d in decisions if isinstance(d, Admitted)] == [False, True, False]


def test_bounds_count_the_batch_itself() -> None:
    decisions = decided([submission("a")] * 1 + [submission("a"), submission("a")], view(session("a")))
    assert kinds(decisions) == [Admitted, Admitted, RateLimited]
    sessions = [session(name) for name in "abcd"]
    decisions = decided([submission(name) for name in "abcd"], view(*sessions))
    assert kinds(decisions) == [Admitted, Admitted, Admitted, RateLimited]


def test_a_refused_one_takes_no_place() -> None:
    stranger = Identity(company_id="other", user_id="user", key_id="k", scopes=frozenset())
    decisions = decided([submission("a", stranger), submission("a")], view(session("a")))
    assert kinds(decisions) == [NotFound, Admitted]
    assert isinstance(decisions[1], Admitted)
    assert (decisions[1].position, decisions[1].claimed) == (0, True)


def test_a_turn_for_a_position_is_admitted_there_only() -> None:
    third = [submission(request=TurnRequest(position=2)) for _ in range(2)]
    decisions = decided(third, view(session(next_position=2)))
    assert kinds(decisions) == [Admitted, Conflict]
    assert isinstance(decisions[1], Refused)
    assert [each.type for each in decisions[1].error.details or ()] == [SESSION_MOVED_ON]


def test_a_session_in_deletion_refuses() -> None:
    assert kinds(decided([submission()], view(session(active=False)))) == [Conflict]


def test_the_same_command_twice_in_a_batch_is_one_turn() -> None:
    once = submission("a", turn_id="same")
    assert kinds(decided([once, once], view(session("a")))) == [Admitted, Duplicate]
    assert kinds(decided([once], view(session("a"), known=("same",)))) == [Duplicate]


def test_of_new_sessions_that_are_too_many_all_turns_are_refused_and_of_others_none() -> None:
    names = ["a", "a", "b", "c", "b", "a"]
    sessions = {name: session(name) for name in "abc"}
    begins = NewSession("", "company", "user", None, {}, "", AgentSpec("llm_agent"))
    excess = Excess(2, quota_exceeded("sessions", 1, 3))
    decisions = decided(
        [submission(name, begins=begins) for name in names],
        replace(view(*sessions.values()), excess={"company": excess}),
        per_session=9,
        per_company=9,
    )
    kept = [d.submission.session_id for d in decisions if isinstance(d, Admitted)]
    assert kept == ["c"]
    assert kinds(decisions).count(QuotaExceeded) == 5
