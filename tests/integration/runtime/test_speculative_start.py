"""The model is asked while the claim of its turn is being committed; nothing else happens before that."""

import asyncio

import pytest
from psycopg import AsyncConnection
from psycopg.errors import RaiseException

from libs.contracts.identifiers import new_id
from tests.integration.runtime.conftest import StartNode, waits_for_a_row
from tests.support.held_commits import at_commit, commits_held
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import until


async def test_a_turn_runs_while_its_claim_is_committed_and_ends_once(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    turn_id = new_id()
    model.shut("hello")
    async with commits_held(node.database.url, "turns"):
        accepting = asyncio.create_task(node.execute(session, "hello", command_id=turn_id))
        await until(lambda: model.asked)
        # A turn that nobody else can see yet is neither lost nor to be stopped.
        for _ in range(3):
            await node.worker.reconciler.reconcile()
        model.open("hello")
        assert await node.turn(turn_id) == {}
        assert not accepting.done()
    await accepting
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"], model.asked) == ("completed", 1, ["hello"])
    assert await node.names(turn_id) == ["turn.started", "turn.completed"]
    assert await node.history(session) == [("user", "hello"), ("assistant", "re: hello")]


async def test_a_worker_that_goes_while_a_claim_is_committed_leaves_the_turn_to_another(
    start_node: StartNode, model: ObedientModel
) -> None:
    going = await start_node(reconciling=False)
    session, turn_id = await going.create_session(), new_id()
    async with commits_held(going.database.url, "turns"):
        accepting = asyncio.create_task(going.execute(session, "hello", command_id=turn_id))
        await until(lambda: model.asked)
        await going.worker.stop(0.01)
        assert going.worker.engine.present == frozenset()
    await accepting
    staying = await start_node()
    [turn] = await staying.ended(turn_id)
    assert (turn["status"], turn["attempt"]) == ("completed", 2)
    assert await staying.names(turn_id) == ["turn.started", "turn.restarted", "turn.completed"]
    assert await staying.history(session) == [("user", "hello"), ("assistant", "re: hello")]


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_turn_ended_during_its_claim_ends_once(node: Node, model: ObedientModel, *, deleted: bool) -> None:
    session, turn_id = await node.create_session(), new_id()
    model.shut("hello")
    async with commits_held(node.database.url, "turns"):
        accepting = asyncio.create_task(node.execute(session, "hello", command_id=turn_id))
        await until(lambda: model.asked)
        ending = asyncio.create_task(node.delete(session) if deleted else node.cancel(session, turn_id))
        await until(lambda: waits_for_a_row(node))
    await asyncio.gather(accepting, ending)
    await until(lambda: not node.worker.engine.present)
    assert await node.names(turn_id) == ["turn.started", "turn.cancelled"]
    assert model.asked == ["hello"]
    name, _ = await node.outcome(await ending)
    assert name == ("session.deleted" if deleted else "cancel_turn.accepted")


@pytest.mark.rule(7)
async def test_a_turn_whose_claim_was_not_committed_leaves_nothing(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    turn_id = new_id()
    model.shut("hello")
    await _alter(node, at_commit("RAISE EXCEPTION 'not today'", "turns"))
    with pytest.raises(RaiseException, match="not today"):
        await node.execute(session, "hello", command_id=turn_id)
    await until(lambda: not node.worker.engine.present)
    assert (await node.turn(turn_id), await node.events(turn_id)) == ({}, [])
    await _alter(node, "DROP TRIGGER at_commit ON turns")
    model.open("hello")
    await node.execute(session, "hello", command_id=turn_id)
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"]) == ("completed", 1)
    assert await node.history(session) == [("user", "hello"), ("assistant", "re: hello")]


async def _alter(node: Node, statements: str) -> None:
    async with await AsyncConnection.connect(node.database.url, autocommit=True) as connection:
        await connection.execute(statements)
