"""Admission of sessions and turns: limits, shares of the worker, and new sessions."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from libs.contracts.errors import Conflict, NotFound, QuotaExceeded, RateLimited, quota_exceeded
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, MessageContext
from libs.contracts.resources.sessions import CreateSession
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
from services.runtime.domain.sessions import SessionCreation
from services.runtime.domain.turns import Submission
from services.runtime.use_cases import sessions
from tests.support.runtime_nodes import ObedientModel
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
    policy = AdmissionPolicy(backlog, ObedientModel())
    return policy.decide(batch, view, WorkerSlots(free))


def kinds(decisions: list[Decision]) -> list[object]:
    return [type(d.error) if isinstance(d, Refused) else type(d) for d in decisions]


def test_positions_count_on_within_a_batch_and_only_the_first_is_claimed() -> None:
    batch = [submission("a"), submission("b"), submission("a")]
    decisions = decided(batch, view(session("a", next_position=7), session("b")))
    admitted = [(d.position, d.claimed) for d in decisions if isinstance(d, Admitted)]
    assert admitted == [(7, True), (0, True), (8, False)]


def test_a_busy_session_queues_and_so_does_a_full_worker() -> None:
    seen = view(session("busy"), session("a"), session("b"), live={"busy": 1})
    decisions = decided([submission(name) for name in ("busy", "a", "b")], seen, free=1)
    assert [d.claimed for d in decisions if isinstance(d, Admitted)] == [False, True, False]


def test_bounds_count_the_batch_itself() -> None:
    decisions = decided([submission("a") for _ in range(3)], view(session("a")))
    assert kinds(decisions) == [Admitted, Admitted, RateLimited]
    decisions = decided([submission(name) for name in "abcd"], view(*(session(name) for name in "abcd")))
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


def test_a_session_in_deletion_refuses_and_the_same_command_twice_is_one_turn() -> None:
    assert kinds(decided([submission()], view(session(active=False)))) == [Conflict]
    once = submission("a", turn_id="same")
    assert kinds(decided([once, once], view(session("a")))) == [Admitted, Duplicate]
    assert kinds(decided([once], view(session("a"), known=("same",)))) == [Duplicate]


def test_of_new_sessions_that_are_too_many_all_turns_are_refused_and_of_others_none() -> None:
    begins = NewSession("", "company", "user", None, {}, "", AgentSpec("llm_agent"))
    excess = {"company": Excess(2, quota_exceeded("sessions", 1, 3))}
    seen = replace(view(*(session(name) for name in "abc")), excess=excess)
    decisions = decided([submission(name, begins=begins) for name in "aabcba"], seen, per_session=9, per_company=9)
    assert [d.submission.session_id for d in decisions if isinstance(d, Admitted)] == ["c"]
    assert kinds(decisions).count(QuotaExceeded) == 5


def test_a_company_takes_all_but_what_is_kept_for_others() -> None:
    slots = WorkerSlots(16)
    assert sum(slots.take("flooding") for _ in range(100)) == 16
    assert [slots.take(company) for company in ("quiet", "quiet", "quiet", "third")] == [True, True, False, False]
    one = WorkerSlots(1, {"flooding": 1})
    assert [one.take(company) for company in ("flooding", "quiet", "quiet")] == [False, True, False]
    assert not WorkerSlots(0).take("any"), "a worker that drains has no place"
    assert not WorkerSlots(2, {"a": 5}).take("b"), "more running turns than places leave none"


def test_waiting_companies_are_served_in_turn_those_that_run_fewest_first() -> None:
    waiting = [("a", f"a{n}") for n in range(9)] + [("b", f"b{n}") for n in range(2)] + [("c", "c0")]
    assert WorkerSlots(6).assign_slots(waiting) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]
    waiting = [("a", "a0"), ("b", "b0"), ("b", "b1")]
    assert WorkerSlots(8, {"a": 2, "b": 5}).assign_slots(waiting) == ["a0", "b0"]
    assert WorkerSlots(8, {"a": 5, "b": 2}).assign_slots(waiting) == ["b0", "b1"]
    assert WorkerSlots(2, {"a": 2}).assign_slots(waiting[:2]) == ["b0"], "who has the most keeps none waiting behind it"
    assert WorkerSlots(2).assign_slots([]) == []


async def test_a_company_that_creates_many_sessions_leaves_others_a_place_in_the_first_transaction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batches: list[list[str]] = []

    async def add(_outbox: Any, _amounts: Any, creations: Sequence[SessionCreation]) -> None:
        batches.append([creation.session.company_id for creation in creations])

    monkeypatch.setattr(sessions, "create_sessions", add)
    unused: Any = None
    made = sessions.Sessions(unused, unused, unused, lambda _: None, lambda: None)

    async def created(company_id: str) -> None:
        caller = Identity(company_id=company_id, user_id="user", key_id="key", scopes=frozenset())
        context = CommandContext(new_id(), caller, MessageContext(company_id, "correlation"), "2026-01-01T00:00:00Z")
        agent = {"agent_type": "llm_agent", "model": "openai:gpt-5"}
        await made.create(CreateSession(session_id=new_id(), agent_config=agent, config_hash="x"), context)

    await asyncio.gather(*[created(company_id) for company_id in ["busy"] * 100 + ["quiet"]])
    assert [(len(batch), "quiet" in batch) for batch in batches] == [(64, True), (37, False)]
