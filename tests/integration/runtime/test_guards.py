"""The guards of single statements, met by what a stale or beaten worker would write."""

from dataclasses import replace
from unittest.mock import AsyncMock

import psycopg
import pytest

from libs.contracts.errors import TimedOut
from libs.contracts.identifiers import new_id
from services.runtime.adapters.postgres.steps import record_steps
from services.runtime.adapters.postgres.turn_ends import PostgresTurnOutcomes
from services.runtime.domain.conversation import ToolCall, ToolResult
from services.runtime.domain.models import NoPrices
from services.runtime.domain.steps import Step
from services.runtime.domain.turns import ClaimedTurn, OutcomeKind, StepRecord, TurnOutcome, failed
from services.runtime.domain.waits import NewWait
from services.runtime.domain.waits.kinds import KINDS
from tests.integration.runtime.conftest import StartNode, running_turn
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.runtime_turns import claimed_turn
from tests.support.waiting import until


async def record(node: Node, *steps: StepRecord) -> list[bool]:
    return await record_steps(node.outbox, steps)


def ends(node: Node) -> PostgresTurnOutcomes:
    return PostgresTurnOutcomes(node.outbox, NoPrices(), worker_id=node.worker.id, turn_deadline=60.0, action_ttl=60.0)


async def claimed(node: Node, model: ObedientModel) -> ClaimedTurn:
    session, turn_id = await running_turn(node, model)
    await until(lambda: turn_id in node.worker.engine.held)
    return claimed_turn(id=turn_id, session_id=session)


def step(turn: ClaimedTurn, number: int = 1) -> StepRecord:
    return StepRecord(turn, Step(number, ToolResult("call", "echo", "x")))


async def recorded(node: Node, turn: ClaimedTurn) -> int:
    return len(await node.rows("SELECT 1 FROM steps WHERE turn_id = %s", turn.id))


@pytest.fixture
async def alone(start_node: StartNode) -> Node:
    """A node that doesn't reconcile."""
    return await start_node(reconciling=False)


async def test_a_step_of_a_cancelled_turn_is_not_recorded(alone: Node, model: ObedientModel) -> None:
    node, turn = alone, await claimed(alone, model)
    await node.cancel(turn.session_id, turn.id)
    assert await record(node, step(turn)) == [False]
    assert await recorded(node, turn) == 0


async def test_a_step_that_was_recorded_before_the_answer_was_lost_stays_one(node: Node, model: ObedientModel) -> None:
    turn = await claimed(node, model)
    assert await record(node, step(turn)) == [True]
    assert await record(node, step(turn)) == [True]
    assert await recorded(node, turn) == 1


async def test_steps_of_several_turns_share_a_transaction_and_only_the_stale_one_fails(
    node: Node, model: ObedientModel
) -> None:
    stale, good = await claimed(node, model), await claimed(node, model)
    await node.rows("UPDATE turns SET fence = 2 WHERE id = %s RETURNING id", stale.id)
    assert await record(node, step(stale), step(good, 1), step(good, 2)) == [False, True, True]
    assert (await recorded(node, stale), await recorded(node, good)) == (0, 2)


async def test_a_turn_is_ended_once(alone: Node, model: ObedientModel) -> None:
    node, turn = alone, await claimed(alone, model)
    outcome = failed(turn, TimedOut("late"))
    first, second = [await ends(node).commit([outcome], claim_in=[]) for _ in range(2)]
    assert (first[0].applied, second[0].applied) == (True, False)
    assert await node.names(turn.id) == ["turn.started", "turn.failed"]


async def test_an_end_whose_batch_fails_in_another_part_counts(
    alone: Node, model: ObedientModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = alone
    ended, other = await claimed(node, model), await claimed(node, model)
    outcomes = ends(node)
    # Only completed turns end in a statement of their own; what their events say does not matter to it.
    batch = [failed(turn, TimedOut("late")) for turn in (ended, other)]
    batch[0] = replace(batch[0], kind=OutcomeKind.COMPLETED, sequence=1)
    with monkeypatch.context() as patched:
        patched.setattr(outcomes, "_commit_all", AsyncMock(side_effect=psycopg.OperationalError))
        result, problem = await outcomes.commit(batch, claim_in=[])
    assert result.applied
    assert isinstance(problem, psycopg.OperationalError)
    assert await node.names(ended.id) == ["turn.started", "turn.failed"]
    assert await node.names(other.id) == ["turn.started"]
    for expected in (True, False):
        [again] = await outcomes.commit(batch[1:], claim_in=[])
        assert again.applied is expected
    assert await node.names(ended.id) == await node.names(other.id) == ["turn.started", "turn.failed"]


def waiting(turn: ClaimedTurn) -> TurnOutcome:
    calls = [ToolCall(f"c{number}", "pay", {}) for number in (1, 2)]
    waits = [NewWait(new_id(), "approval", 1, KINDS["approval"].payload(call), call.id) for call in calls]
    return TurnOutcome(turn, OutcomeKind.WAITING, waits=tuple(waits))


async def test_a_wait_is_committed_once(alone: Node, model: ObedientModel) -> None:
    node, turn = alone, await claimed(alone, model)
    outcome = waiting(turn)
    first, second = [await ends(node).commit([outcome], claim_in=[turn.session_id]) for _ in range(2)]
    assert (first[0].applied, second[0].applied) == (True, False)
    assert await node.names(turn.id) == ["turn.started", "turn.action_required", "turn.action_required"]
    shown = [payload["action"]["action_id"] for _, payload in (await node.events(turn.id))[1:]]
    assert shown == [wait.id for wait in outcome.waits]
    assert (await node.turn(turn.id))["event_sequence"] == 3


async def test_a_stale_wait_opens_nothing_and_those_beside_it_are_committed(alone: Node, model: ObedientModel) -> None:
    node = alone
    stale, good, ended = [await claimed(node, model) for _ in range(3)]
    await node.rows("UPDATE turns SET fence = 2 WHERE id = %s RETURNING id", stale.id)
    batch = [waiting(stale), failed(ended, TimedOut("late")), waiting(good)]
    results = await ends(node).commit(batch, claim_in=[stale.session_id])
    assert [result.applied for result in results] == [False, True, True]
    assert await node.rows("SELECT DISTINCT turn_id FROM waits") == [(good.id,)]
    assert await node.names(stale.id) == ["turn.started"]
    assert [(await node.turn(turn.id))["status"] for turn in (stale, ended, good)] == ["running", "failed", "waiting"]


async def test_a_stale_release_does_not_free_the_turn(node: Node, model: ObedientModel) -> None:
    turn = await claimed(node, model)
    await node.rows("UPDATE turns SET fence = 2 WHERE id = %s RETURNING id", turn.id)
    [result] = await ends(node).commit([TurnOutcome(turn, OutcomeKind.RELEASED)], claim_in=[])
    assert not result.applied
    assert (await node.turn(turn.id))["worker_id"] == node.worker.id


async def test_a_turn_whose_command_was_given_up_ends_without_a_second_outcome(
    alone: Node, model: ObedientModel
) -> None:
    node, turn = alone, await claimed(alone, model)
    await node.rows(
        "INSERT INTO outbox (event_id, type, topic, subject, sequence, company_id, correlation_id, causation_id,"
        " terminal, payload) VALUES ('e', 'aes.runtime.execute_turn.rejected.v1', 'runtime-events', 'x', 1,"
        " 'company-1', 'label', %s, true, '{}') RETURNING id",
        turn.id,
    )
    model.open("work")
    await node.ended(turn.id)
    assert (await node.names(turn.id)).count("turn.completed") == 0
    await until(lambda: turn.id not in node.worker.engine.held)


async def test_a_session_with_a_running_turn_is_not_claimed(alone: Node, model: ObedientModel) -> None:
    node, turn = alone, await claimed(alone, model)
    queued = await node.execute(turn.session_id, "waiting")
    assert await node.worker.reconciler._reclaimer.claim([turn.session_id]) == []
    await node.cancel(turn.session_id, turn.id)
    assert await node.worker.reconciler._reclaimer.claim([turn.session_id]) == [], "its execution has not stopped yet"
    assert (await node.turn(queued))["status"] == "queued"


@pytest.mark.rule(9)
async def test_the_database_itself_refuses_a_second_running_turn(node: Node, model: ObedientModel) -> None:
    turn = await claimed(node, model)
    queued = await node.execute(turn.session_id, "waiting")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await node.rows("UPDATE turns SET status = 'running' WHERE id = %s RETURNING id", queued)
