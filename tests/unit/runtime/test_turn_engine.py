"""From a claimed turn to its committed outcome, with a store that fails now and then."""

import asyncio
import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

import pytest
import structlog

from libs.contracts.errors import InternalError, TimedOut
from libs.contracts.identifiers import new_id
from libs.contracts.resources.turns import TurnFailed
from services.runtime.domain.agents import AgentLoop, AgentReply, AgentTask, TurnJournal, TurnWaits
from services.runtime.domain.conversation import (
    AssistantMessage,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from services.runtime.domain.steps import ModelOutput, Step
from services.runtime.domain.turns import CommitResult, OutcomeKind, TurnOutcome
from services.runtime.domain.waits import NewWait
from services.runtime.use_cases.engine.commits import STORE_RETRIES, ClaimFuture, GroupCommit
from services.runtime.use_cases.engine.turn_engine import TurnEngine
from services.runtime.use_cases.run_turn import ConversationCache, RunTurn
from tests.support.runtime_nodes import DeltaLog
from tests.support.runtime_turns import MemoryConversations, MemoryTurns, NoMetrics, claimed_turn
from tests.support.waiting import until

Run = Callable[[AgentTask, TurnJournal], Awaitable[None]]


async def _nothing(_task: AgentTask, _journal: TurnJournal) -> None: ...


class OneLiner:
    """An AgentLoop that says one thing, after ``before``."""

    def __init__(self, before: Run = _nothing) -> None:
        self.before = before
        self.tasks: list[AgentTask] = []

    async def asked(self, times: int = 1) -> None:
        await until(lambda: len(self.tasks) >= times)

    async def run(self, task: AgentTask, journal: TurnJournal) -> AgentReply:
        self.tasks.append(task)
        await self.before(task, journal)
        answer = ModelAnswer("done", (), Usage(1, 2, model_calls=1))
        return AgentReply("done", answer, (), (), (), answer.usage, 1)


async def _for_ever(_task: AgentTask, _journal: TurnJournal) -> None:
    await asyncio.Event().wait()


async def _settle_down() -> None:
    """Let everything happen that waits for nothing outside."""
    for _ in range(50):
        await asyncio.sleep(0)


async def ended(turns: MemoryTurns, *kinds: OutcomeKind) -> list[TurnOutcome]:
    """The outcomes, once there are so many, which are of these kinds."""
    await until(lambda: len(turns.outcomes) >= len(kinds))
    assert [outcome.kind for outcome in turns.outcomes] == list(kinds)
    return turns.outcomes


def engine(
    agent: AgentLoop,
    turns: MemoryTurns,
    conversations: MemoryConversations | None = None,
    deltas: DeltaLog | None = None,
) -> TurnEngine:
    conversations = conversations or MemoryConversations()
    cache = ConversationCache(conversations)
    steps = GroupCommit(turns.record_steps, lambda step: step.turn.message_context.company_id)
    run_turn = RunTurn(agent, cache, conversations, steps, deltas or DeltaLog())

    async def no_sleep(_seconds: float) -> None:
        await asyncio.sleep(0)

    return TurnEngine(run_turn, cache, turns, NoMetrics(), capacity=2, retries=replace(STORE_RETRIES, sleep=no_sleep))


class Asking:
    """An AgentLoop that waits for an approval."""

    async def run(self, _task: AgentTask, _journal: TurnJournal) -> TurnWaits:
        return TurnWaits((NewWait("a", "approval", 1, {}, "pay"),))


QUESTION = UserMessage((TextPart("hello"),))


async def test_a_turn_that_waits_is_committed_in_spite_of_an_outage_and_leaves_the_worker() -> None:
    turns = MemoryTurns(unavailable=3)
    running = engine(Asking(), turns)
    running.start(claimed_turn(stream=False), QUESTION)
    await until(lambda: not running.present)
    [outcome] = await ended(turns, OutcomeKind.WAITING)
    assert (outcome.event, [wait.call_id for wait in outcome.waits]) == (None, ["pay"])


async def test_a_thousand_waiting_turns_leave_next_to_nothing_in_memory() -> None:
    turns = MemoryTurns()
    running = engine(Asking(), turns)

    async def let_wait(hundreds: int) -> None:
        for _ in range(hundreds):
            for _ in range(100):
                running.start(claimed_turn(session_id=new_id(), stream=False), QUESTION)
            await until(lambda: not running.present)
            turns.outcomes.clear()
            turns.claimed_in.clear()
        gc.collect()

    tracemalloc.start()
    try:
        await let_wait(2)
        before, _ = tracemalloc.get_traced_memory()
        await let_wait(10)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Less than an entry in a set for each of them. Caches of everything else that runs may grow by a few.
    assert after - before < 1000 * 32


async def test_a_reply_outlasts_outages_also_while_the_conversation_is_read() -> None:
    turns, conversations, agent = MemoryTurns(unavailable=5), MemoryConversations(), OneLiner()
    conversations.unavailable = 1
    engine(agent, turns, conversations).start(claimed_turn(), QUESTION)
    await ended(turns, OutcomeKind.COMPLETED)
    assert len(agent.tasks) == 1


async def test_a_reply_that_cannot_be_stored_ends_the_attempt_and_in_the_end_the_turn() -> None:
    turns = MemoryTurns()
    turns.refuse_replies = True
    running = engine(OneLiner(), turns)
    running.start(claimed_turn(lost_attempts=1), QUESTION)
    await ended(turns, OutcomeKind.CRASHED)
    await until(lambda: not running.held)
    running.start(claimed_turn(lost_attempts=2), QUESTION)
    handed_back, failed = await ended(turns, OutcomeKind.CRASHED, OutcomeKind.FAILED)
    assert handed_back.event is None
    assert isinstance(failed.event, TurnFailed)
    assert failed.event.error.type == InternalError.kind
    assert (failed.cause or "").startswith("ValueError at services.runtime.")


@pytest.mark.parametrize(
    "problem", [KeyError("a secret"), TimeoutError("a library's own"), InternalError("of another service")]
)
async def test_an_unexpected_exception_hands_the_turn_back_until_its_attempts_are_used_up(problem: Exception) -> None:
    async def fail(_task: AgentTask, _journal: TurnJournal) -> None:
        raise problem

    turns, kinds = MemoryTurns(), (OutcomeKind.CRASHED, OutcomeKind.CRASHED, OutcomeKind.FAILED)
    running = engine(OneLiner(fail), turns)
    for lost in range(3):
        running.start(claimed_turn(lost_attempts=lost), QUESTION)
        *_, failed = await ended(turns, *kinds[: lost + 1])
        await until(lambda: not running.held)
    assert isinstance(failed.event, TurnFailed)
    assert failed.event.error.message == "The turn failed because of an internal error. Try again."
    kind, _, location = (failed.cause or "").partition(" at ")
    assert kind == type(problem).__name__
    assert location.startswith("services.runtime.use_cases.run_turn:")
    assert "secret" not in location


async def _clean_up_badly(_task: AgentTask, _journal: TurnJournal) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise RuntimeError("Session is closed")


async def test_what_fails_while_an_execution_is_stopped_fails_no_turn_and_at_the_deadline_it_is_overdue() -> None:
    turns, agent = MemoryTurns(), OneLiner(_clean_up_badly)
    running = engine(agent, turns)
    running.start(claimed_turn(), QUESTION)
    await agent.asked()
    await running.drain(0.0)
    await ended(turns, OutcomeKind.HANDED_BACK)

    turns = MemoryTurns()
    engine(OneLiner(_clean_up_badly), turns).start(claimed_turn(seconds_left=0.01), QUESTION)
    [overdue] = await ended(turns, OutcomeKind.FAILED)
    assert isinstance(overdue.event, TurnFailed)
    assert overdue.event.error.type == TimedOut.kind


async def test_a_drain_that_is_cut_short_commits_nothing_more() -> None:
    turns, agent = MemoryTurns(), OneLiner(_for_ever)
    running = engine(agent, turns)
    running.start(claimed_turn(), QUESTION)
    await agent.asked()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await running.drain(60.0)
    await until(lambda: not running.present)
    assert turns.outcomes == []


async def test_the_claimed_next_turn_runs_without_the_reconciler() -> None:
    turns, agent = MemoryTurns(), OneLiner()
    turns.next_turns = [claimed_turn(id="next", position=0)]
    running = engine(agent, turns, MemoryConversations({0: [QUESTION]}))
    running.start(claimed_turn(id="first"), QUESTION)
    await until(lambda: len(turns.outcomes) == 2)
    assert [task.turn_id for task in agent.tasks] == ["first", "next"]


async def test_a_turn_whose_end_comes_too_late_is_released_and_the_next_one_begins() -> None:
    class Cancelled(MemoryTurns):
        async def commit(self, outcomes: Sequence[TurnOutcome], *, claim_in: Collection[str]) -> list[CommitResult]:
            if not self.outcomes:
                self.outcomes.extend(outcomes)
                return [CommitResult(applied=False)]
            return await super().commit(outcomes, claim_in=claim_in)

    turns, released = Cancelled(), asyncio.Event()
    turns.next_turns.append(claimed_turn(id="next", position=1))
    running = engine(OneLiner(), turns, MemoryConversations({1: [QUESTION]}))
    running.on_release = released.set
    running.start(claimed_turn(id="late"), QUESTION)
    ends = await ended(turns, OutcomeKind.COMPLETED, OutcomeKind.RELEASED, OutcomeKind.COMPLETED)
    assert [outcome.turn.id for outcome in ends] == ["late", "late", "next"]
    assert released.is_set()


async def test_a_turn_stopped_at_its_start_is_released() -> None:
    turns = MemoryTurns()
    running = engine(OneLiner(_for_ever), turns)
    turn = claimed_turn()
    running.start(turn, QUESTION)
    running.stop(turn.id)
    await until(lambda: not running.held)
    await ended(turns, OutcomeKind.RELEASED)


async def test_a_newer_claim_of_the_same_turn_replaces_the_older_execution() -> None:
    turns, agent = MemoryTurns(), OneLiner(_for_ever)
    running = engine(agent, turns)
    older, newer = claimed_turn(id="turn"), claimed_turn(id="turn", fence=2, attempt=2)
    running.start(older, QUESTION)
    await agent.asked()
    running.start(newer, QUESTION)
    await until(lambda: turns.outcomes)
    assert running.held == {"turn": 2}
    assert [outcome.turn for outcome in turns.outcomes] == [older]
    running.stop("turn")
    await until(lambda: not running.held)


async def test_a_late_older_claim_is_ignored() -> None:
    turns, agent = MemoryTurns(), OneLiner(_for_ever)
    running = engine(agent, turns)
    running.start(claimed_turn(id="turn", fence=2, attempt=2), QUESTION)
    running.start(claimed_turn(id="turn"), QUESTION)
    await agent.asked()
    await asyncio.sleep(0)
    assert (running.held, len(agent.tasks), turns.outcomes) == ({"turn": 2}, 1, [])
    running.stop("turn")
    await until(lambda: not running.held)


async def test_draining_accepts_nothing_and_hands_back_unfinished_turns() -> None:
    turns, agent = MemoryTurns(), OneLiner(_for_ever)
    turns.next_turns = [claimed_turn(id="next")]
    running = engine(agent, turns)
    running.start(claimed_turn(), QUESTION)
    await agent.asked()
    assert running.slots().take("company")
    await running.drain(0.01)
    assert (running.slots().take("company"), running.held) == (False, {})
    await ended(turns, OutcomeKind.HANDED_BACK)
    assert len(turns.next_turns) == 1
    running.start(claimed_turn(stream=False), QUESTION, ClaimFuture())
    await _settle_down()
    assert (len(agent.tasks), running.held, len(turns.outcomes)) == (1, {}, 1), "a late claim does not start"


async def test_a_turns_logs_name_its_own_command() -> None:
    bound: dict[str, object] = {}

    async def look(_task: AgentTask, _journal: TurnJournal) -> None:
        bound.update(structlog.contextvars.get_contextvars())

    turns = MemoryTurns()
    with structlog.contextvars.bound_contextvars(command_id="of another in the batch"):
        engine(OneLiner(look), turns).start(claimed_turn(id="turn"), QUESTION)
    await until(lambda: turns.outcomes)
    assert (bound["turn_id"], bound["command_id"]) == ("turn", "turn")


async def test_a_committed_end_is_not_undone_by_a_late_stop() -> None:
    turns = MemoryTurns(unavailable=3)
    running = engine(OneLiner(), turns)
    running.start(claimed_turn(id="turn"), QUESTION)
    await until(lambda: turns.unavailable < 3)
    running.stop("turn")
    await until(lambda: not running.held)
    await ended(turns, OutcomeKind.COMPLETED)


async def test_a_speculative_turn_ends_after_its_claim() -> None:
    turns, agent, claim = MemoryTurns(), OneLiner(), ClaimFuture()
    running = engine(agent, turns)
    running.start(claimed_turn(stream=False), QUESTION, claim)
    await agent.asked()
    await _settle_down()
    assert (turns.outcomes, running.held, len(running.present)) == ([], {}, 1)
    claim.settle(committed=True)
    await ended(turns, OutcomeKind.COMPLETED)


async def test_a_claim_that_is_made_again_after_a_failure_replaces_the_failed_one() -> None:
    turns, agent, claim = MemoryTurns(), OneLiner(_for_ever), ClaimFuture()
    running = engine(agent, turns)
    turn = claimed_turn(stream=False)
    running.start(turn, QUESTION, claim)
    await agent.asked()
    claim.settle(committed=False)
    agent.before = _nothing
    running.start(turn, QUESTION)
    await until(lambda: turns.outcomes)
    await until(lambda: not running.held)
    await ended(turns, OutcomeKind.COMPLETED)


async def test_steps_are_recorded_after_the_claim() -> None:
    turns, claim = MemoryTurns(), ClaimFuture()

    async def call_a_tool(_task: AgentTask, journal: TurnJournal) -> None:
        await journal.record(Step(1, ModelOutput(ModelAnswer("", (ToolCall("call", "calculator", {}),), Usage(1, 1)))))

    running = engine(OneLiner(call_a_tool), turns)
    running.start(claimed_turn(stream=False), QUESTION, claim)
    await _settle_down()
    assert turns.steps == []
    claim.settle(committed=True)
    await until(lambda: turns.outcomes)
    assert len(turns.steps) == 1


@pytest.mark.parametrize("committed", [True, False])
async def test_a_streamed_turn_asks_before_its_claim_and_shows_nothing_unless_it_is_committed(committed: bool) -> None:
    turns, claim, deltas = MemoryTurns(), ClaimFuture(), DeltaLog()

    async def say(_task: AgentTask, journal: TurnJournal) -> None:
        journal.output_text("do", 1)
        journal.output_text("ne", 1)

    agent = OneLiner(say)
    running = engine(agent, turns, deltas=deltas)
    running.start(claimed_turn(stream=True), QUESTION, claim)
    await agent.asked()
    await _settle_down()
    assert (deltas.sent, turns.outcomes) == ([], [])
    claim.settle(committed=committed)
    await until(lambda: not running.present and not running._running)
    texts = [getattr(event, "text", None) for _, event in deltas.sent]
    assert (texts, len(turns.outcomes)) == ((["done", None], 1) if committed else ([], 0))


async def test_a_session_goes_on_beside_others_until_one_waits_that_runs_fewer() -> None:
    turns, agent = MemoryTurns(), OneLiner()
    running = engine(agent, turns)
    room: list[None] = []
    running.on_room = lambda: room.append(None)
    for waiting, goes_on in ((frozenset[str](), True), ({"company"}, True), ({"company", "other"}, False)):
        running.left_waiting = frozenset(waiting)
        turns.claimed_in.clear()
        for number in (1, 2):
            running.start(claimed_turn(session_id=f"s{number}", stream=False), QUESTION)
        await until(lambda: not running.present)
        claimed = {session for sessions in turns.claimed_in for session in sessions}
        assert len(claimed) == (2 if goes_on else 1)
    assert len(room) == 4


async def test_a_company_that_runs_no_more_than_who_waits_goes_on() -> None:
    turns = MemoryTurns()
    running = engine(OneLiner(), turns)
    running.left_waiting = frozenset({"other"})
    running.start(claimed_turn(session_id="only"), QUESTION)
    await until(lambda: not running.present)
    assert turns.claimed_in == [{"only"}]


async def test_a_later_turn_is_given_the_calls_of_the_turn_before() -> None:
    call, result = ToolCall("c", "echo", {"text": "x"}, provider_data={"sig": "s"}), ToolResult("c", "echo", "x")

    async def calling(task: AgentTask, journal: TurnJournal) -> None:
        if not task.history:
            answer = ModelAnswer("Let me see.", (call,), provider_data={"model": "m"})
            await journal.record(Step(1, ModelOutput(answer)))
            await journal.record(Step(1, result))
            await journal.record(Step(2, ModelOutput(ModelAnswer("four"), problems=("the answer isn't JSON",))))

    agent, turns = OneLiner(calling), MemoryTurns()
    running = engine(agent, turns)
    running.start(claimed_turn(), QUESTION)
    await until(lambda: not running.held)
    running.start(claimed_turn(position=1), QUESTION)
    await agent.asked(2)
    asked = AssistantMessage("Let me see.", (call,), {"model": "m"})
    assert agent.tasks[1].history == (QUESTION, asked, ToolMessage(result), AssistantMessage("done"))
