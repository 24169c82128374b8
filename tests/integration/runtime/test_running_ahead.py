"""The model is asked while the claim of its turn is being committed; nothing else happens before that."""

import asyncio
from collections.abc import Sequence

import pytest
from psycopg import AsyncConnection
from psycopg.errors import RaiseException

from libs.contracts.identifiers import new_id
from services.runtime.domain.intake import Decide
from services.runtime.domain.ports import RunAhead, TurnIntake
from services.runtime.domain.turns import IntakeResult, Submission
from tests.support.runtime_nodes import Node, ObedientModel, until

_LOCK = 4711
_AT_COMMIT = """
    CREATE FUNCTION at_commit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {what}; RETURN NULL; END $$;
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON turns DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW EXECUTE FUNCTION at_commit()
"""


async def test_a_turn_runs_while_its_claim_is_committed_and_ends_once(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    turn_id = new_id()
    async with await AsyncConnection.connect(node.database.url, autocommit=True) as other:
        await other.execute(_AT_COMMIT.format(what=f"PERFORM pg_advisory_xact_lock({_LOCK})"))
        await other.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
        taking_in = asyncio.create_task(node.execute(session, "hello", command_id=turn_id))
        await until(lambda: model.asked)
        # Several looks of the watch: a turn that nobody else can see yet is neither lost nor to be stopped.
        await asyncio.sleep(0.5)
        assert await node.turn(turn_id) == {}
        assert not taking_in.done()
        await other.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))
    await taking_in
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"], model.asked) == ("completed", 1, ["hello"])
    assert await node.names(turn_id) == ["turn.started", "turn.completed"]
    assert await node.history(session) == [("user", "hello"), ("assistant", "re: hello")]


async def test_a_turn_whose_claim_was_not_committed_never_was(node: Node, model: ObedientModel) -> None:
    session = await node.create_session()
    turn_id = new_id()
    model.shut("hello")
    await _alter(node, _AT_COMMIT.format(what="RAISE EXCEPTION 'not today'"))
    with pytest.raises(RaiseException, match="not today"):
        await node.execute(session, "hello", command_id=turn_id)
    await until(lambda: node.worker.engine.free_slots() == node.settings.max_running_turns)
    assert (await node.turn(turn_id), await node.events(turn_id)) == ({}, [])
    await _alter(node, "DROP TRIGGER at_commit ON turns")
    model.open("hello")
    await node.execute(session, "hello", command_id=turn_id)
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"]) == ("completed", 1)
    assert await node.history(session) == [("user", "hello"), ("assistant", "re: hello")]


async def test_a_late_answer_of_the_commit_does_not_make_a_turn_look_lost(start_node, model: ObedientModel) -> None:
    node = await start_node(watching=False)
    session = await node.create_session()
    model.shut("hello")
    intake = node.worker.take_in._intake
    commit, answered = intake._commit, asyncio.Event()

    async def answer_late(submissions: Sequence[Submission]) -> Sequence[IntakeResult]:
        [store, *others] = commit.args
        results = await commit.func(LateStore(store, answered), *others, submissions)
        return list(results)

    intake._commit = answer_late
    turn_id = new_id()
    taking_in = asyncio.create_task(node.execute(session, "hello", command_id=turn_id))
    await until(lambda: node.turn(turn_id))
    await node.worker.watch.look()
    answered.set()
    await taking_in
    await node.worker.watch.look()
    model.open("hello")
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"], model.asked) == ("completed", 1, ["hello"])


class LateStore:
    """A TurnIntake whose answers come when told, after their commit."""

    def __init__(self, store: TurnIntake, answered: asyncio.Event) -> None:
        self._store = store
        self._answered = answered

    async def take_in(
        self, submissions: Sequence[Submission], decide: Decide, run_ahead: RunAhead
    ) -> list[IntakeResult]:
        results = await self._store.take_in(submissions, decide, run_ahead)
        await self._answered.wait()
        return results


async def _alter(node: Node, statements: str) -> None:
    async with await AsyncConnection.connect(node.database.url, autocommit=True) as connection:
        await connection.execute(statements)
