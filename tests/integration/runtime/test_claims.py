"""Claims that race, leases that run out or are renewed."""

import asyncio

import pytest

from libs.contracts.identifiers import new_id
from services.runtime.domain.turns import OrphanedTurn
from tests.integration.runtime.conftest import running_turn
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import until


async def test_a_claim_whose_commit_got_no_answer_is_reclaimed(node: Node, model: ObedientModel) -> None:
    """The database gave this worker a turn, the answer was lost on the way."""
    session, turn_id = await node.create_session(), new_id()
    start, node.worker.engine.start = node.worker.engine.start, lambda *_: None  # type: ignore[method-assign]
    await node.execute(session, "lost", command_id=turn_id)
    node.worker.engine.start = start  # type: ignore[method-assign]
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"]) == ("completed", 2)


async def test_claiming_is_a_race_with_one_winner(start_node, model: ObedientModel) -> None:
    """Queued turns of idle sessions, and four workers that reconcile at the same moment."""
    nodes = [await start_node(reconciling=False) for _ in range(4)]
    sessions = [await nodes[0].create_session() for _ in range(12)]
    for node in nodes:
        node.worker.engine._draining = True  # nobody has capacity at admission
    turns = [await nodes[0].execute(session, "work") for session in sessions for _ in range(2)]
    for node in nodes:
        node.worker.engine._draining = False
    await asyncio.gather(*[node.worker.reconciler.reconcile() for node in nodes])
    await nodes[0].ended(*turns)
    assert len(model.asked) == 24
    for turn_id in turns:
        assert await nodes[0].names(turn_id) == ["turn.queued", "turn.started", "turn.completed"]


async def test_two_workers_cannot_both_take_a_dead_workers_turn(start_node, model: ObedientModel) -> None:
    dead = await start_node()
    first, second = [await start_node(reconciling=False) for _ in range(2)]
    _, turn_id = await running_turn(dead, model)
    await dead.crash()
    orphans: tuple[OrphanedTurn, ...] = await until(lambda: _orphans(first))
    taken = await asyncio.gather(*[node.worker.reconciler._reclaimer.reclaim(orphans, 3) for node in (first, second)])
    assert sorted(len(turns) for turns in taken) == [0, 1]
    assert (await first.turn(turn_id))["fence"] == 2


async def _orphans(node: Node) -> tuple[OrphanedTurn, ...]:
    return (await node.worker.reconciler._reclaimer.snapshot([], 5.0)).orphans


async def test_a_worker_that_renewed_its_lease_meanwhile_keeps_its_turn(start_node, model: ObedientModel) -> None:
    slow, other = await start_node(reconciling=False), await start_node(reconciling=False)
    _, turn_id = await running_turn(slow, model)
    slow.database.held = asyncio.Event()
    await slow.outlive_lease()
    orphans = await until(lambda: _orphans(other))
    slow.database.held.set()
    slow.database.held = None
    await slow.worker.lease.renew()
    assert await other.worker.reconciler._reclaimer.reclaim(orphans, 3) == []
    model.open("work")
    [turn] = await slow.ended(turn_id)
    assert turn["attempt"] == 1


@pytest.mark.rule(10)
async def test_after_the_databases_own_start_nobody_is_taken_for_dead(start_node, model: ObedientModel) -> None:
    """With a lease longer than the database's age, an expired lease proves nothing yet."""
    node = await start_node()
    await running_turn(node, model)
    cautious = await start_node(reconciling=False, lease_seconds=10_000_000.0)
    await node.crash()
    other = await start_node(reconciling=False)
    assert await until(lambda: _orphans(other))
    assert await _orphans(cautious) == ()
