"""Workers that die, freeze, lose the database or leave: every turn ends once, nothing finished is done again."""

import asyncio
from collections import Counter

import psycopg
import pytest
from structlog.testing import capture_logs

from libs.contracts.identifiers import new_id
from services.runtime.domain.turns import OrphanedTurn
from tests.integration.runtime.conftest import running_turn
from tests.support.agent_fakes import FakeTool, answering, calling
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import never, until


def stops(node: Node) -> bool:
    """Whether the worker takes no more turns."""
    return not node.worker.engine.slots().take("company-1")


async def test_turns_of_a_dead_worker_end_once_elsewhere(start_node, model: ObedientModel) -> None:
    dead, other = await start_node(), await start_node()
    sessions = [await dead.create_session() for _ in range(20)]
    model.shut("work")
    turns = await asyncio.gather(*[dead.execute(session, "work") for session in sessions])
    await until(lambda: len(model.asked) == 20)
    deadline = (await dead.turn(turns[0]))["deadline"]
    await dead.crash()
    await until(lambda: len(other.worker.engine.held) == 20)
    assert (await other.turn(turns[0]))["deadline"] == deadline
    assert deadline is not None
    model.open("work")
    for turn, session in zip(await other.ended(*turns), sessions, strict=True):
        assert (turn["status"], turn["attempt"], turn["fence"]) == ("completed", 2, 2)
        assert await other.names(turn["id"]) == ["turn.started", "turn.restarted", "turn.completed"]
        assert await other.history(session) == [("user", "work"), ("assistant", "re: work")]


@pytest.mark.rule(12)
async def test_a_resumed_turn_repeats_no_finished_tool_call(
    start_node, model: ObedientModel, tools: list[FakeTool]
) -> None:
    """The worker dies after the tool's result was recorded, while the model is asked a second time."""
    dead, other = await start_node(), await start_node()
    session = await dead.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["work"] = [calling(("echo", {"text": "x"})), answering("done")]
    tools[0]._behave = lambda text: model.shut("work") or text
    turn_id = await dead.execute(session, "work")
    await until(lambda: len(model.asked) == 2)
    await dead.crash()
    await until(lambda: turn_id in other.worker.engine.held)
    model.open("work")
    [turn] = await other.ended(turn_id)
    assert len(tools[0].contexts) == 1
    assert turn["usage"]["model_calls"] == 2
    events = await other.events(turn_id)
    assert [name for name, _ in events] == [
        "turn.started", "turn.tool_call.started", "turn.tool_call.completed", "turn.restarted", "turn.completed",
    ]  # fmt: skip
    assert events[3][1]["resumed_from_step"] == 1
    assert [call["status"] for call in events[4][1]["response"]["tool_calls"]] == ["completed"]


@pytest.mark.parametrize(("tool", "times", "status"), [("echo", 2, "completed"), ("careful", 1, "unknown")])
async def test_a_call_whose_result_was_lost_is_repeated_only_when_that_is_safe(
    start_node, model: ObedientModel, tools: list[FakeTool], tool: str, times: int, status: str
) -> None:
    dead, other = await start_node(), await start_node()
    session = await dead.create_session(agent_type="react_agent", tools=[tool])
    model.scripts["work"] = [calling((tool, {"text": "x"})), answering("done")]
    used = next(each for each in tools if each.definition.name == tool)
    used._delay = 3600.0
    turn_id = await dead.execute(session, "work")
    await until(lambda: used.running)
    used._delay = 0.0
    await dead.crash()
    await other.ended(turn_id)
    assert len(used.contexts) == times
    assert len({context.call_id for context in used.contexts}) == 1
    [call] = (await other.events(turn_id))[-1][1]["response"]["tool_calls"]
    assert call["status"] == status


@pytest.mark.rule(10)
async def test_a_frozen_worker_that_wakes_up_changes_nothing(
    start_node, model: ObedientModel, tools: list[FakeTool]
) -> None:
    """It wakes with a tool result in its hands, long after another took its turn."""
    frozen, other = await start_node(), await start_node()
    session = await frozen.create_session(agent_type="react_agent", tools=["echo"])
    model.scripts["work"] = [calling(("echo", {"text": "x"}))]

    def freeze(text: str) -> str:
        if len(tools[0].contexts) == 1:
            frozen.database.held = asyncio.Event()
            model.shut("work")
        return text

    tools[0]._behave = freeze
    turn_id = await frozen.execute(session, "work")
    await until(lambda: frozen.database.held)
    await frozen.outlive_lease()
    await until(lambda: turn_id in other.worker.engine.held)
    frozen.database.held.set()
    frozen.database.held = None
    await until(lambda: turn_id not in frozen.worker.engine.held)
    assert (await other.turn(turn_id))["worker_id"] == other.worker.id
    model.open("work")
    [turn] = await other.ended(turn_id)
    assert turn["attempt"] == 2
    names = Counter(await other.names(turn_id))
    assert (names["turn.completed"], names["turn.tool_call.completed"]) == (1, 1)
    assert len(await other.history(session)) == 2


async def test_a_stale_reply_is_fenced_off(start_node, model: ObedientModel) -> None:
    """Both workers finish the same turn; only the one with the newer fencing token is heard."""
    stale, other = await start_node(reconciling=False), await start_node()
    session, turn_id = await running_turn(stale, model)
    stale.database.held = asyncio.Event()
    await stale.outlive_lease()
    await until(lambda: turn_id in other.worker.engine.held)
    await until(lambda: len(model.asked) == 2)
    other.database.held = asyncio.Event()
    model.open("work")
    stale.database.held.set()
    await until(lambda: turn_id not in stale.worker.engine.held)
    assert (await stale.turn(turn_id))["status"] == "running"
    assert await stale.history(session) == [("user", "work")]
    other.database.held.set()
    await other.ended(turn_id)
    assert (await other.names(turn_id)).count("turn.completed") == 1


async def test_a_worker_back_from_an_outage_keeps_unclaimed_turns(start_node, model: ObedientModel) -> None:
    node = await start_node()
    _, turn_id = await running_turn(node, model)
    await node.outlive_lease()
    with capture_logs() as logged:
        node.database.down = True
        model.open("work")
        await until(lambda: any(entry["event"] == "database.unreachable" for entry in logged), "the reply waits")
    node.database.down = False
    [turn] = await node.ended(turn_id)
    assert (turn["status"], turn["attempt"]) == ("completed", 1)
    assert model.asked == ["work"], "a reply that was made is not thrown away"


@pytest.mark.rule(11)
async def test_a_turn_that_kills_its_workers_is_given_up(start_node, model: ObedientModel) -> None:
    nodes = [await start_node() for _ in range(3)]
    last = await start_node(max_running_turns=1)
    _, occupied = await running_turn(last, model, "busy")
    _, turn_id = await running_turn(nodes[0], model, "deadly")
    for _ in range(3):
        holder = await until(lambda: next((n for n in nodes if turn_id in n.worker.engine.held), None))
        await until(lambda holder=holder: holder.worker.engine.held[turn_id])
        await holder.crash()
        nodes.remove(holder)
    [turn] = await last.ended(turn_id)
    assert (turn["status"], turn["attempt"], turn["lost_attempts"]) == ("failed", 3, 2)
    assert (await last.names(turn_id))[-1] == "turn.failed"
    assert (await last.turn(occupied))["status"] == "running"


@pytest.mark.failover("turns of a worker that stops in order")
async def test_a_stopping_worker_finishes_what_it_can_and_hands_back_the_rest(start_node, model: ObedientModel) -> None:
    node, other = await start_node(lease_seconds=600.0), await start_node(lease_seconds=600.0)
    (_, long), (_, short) = await running_turn(node, model, "long"), await running_turn(node, model, "short")
    stopping = asyncio.create_task(node.worker.stop(600.0))
    await until(lambda: stops(node))
    model.open("short")
    await node.ended(short)
    assert (long in node.worker.engine.held, stopping.done()) == (True, False)
    # As when the time is over.
    await node.worker.stop(0.0)
    await stopping
    assert node.worker.engine.held == {}
    await until(lambda: long in other.worker.engine.held)
    model.open("long")
    done, kept = await other.ended(long, short)
    assert (done["attempt"], done["lost_attempts"], done["status"]) == (2, 0, "completed")
    assert kept["attempt"] == 1


async def test_a_stopping_worker_claims_nothing_more(start_node, model: ObedientModel) -> None:
    node = await start_node()
    session, first = await running_turn(node, model, "first")
    turns = [first, await node.execute(session, "second")]
    stopping = asyncio.create_task(node.worker.stop(30.0))
    await until(lambda: stops(node))
    model.open("first")
    await stopping
    assert [(await node.turn(turn))["status"] for turn in turns] == ["completed", "queued"]
    other = await start_node()
    await other.ended(turns[1])


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


# In these tests no lease runs out.
LEASE = {"lease_seconds": 600.0}
NOWHERE = "host=127.0.0.1 port=1"


def sees(node: Node, other: Node) -> bool:
    """Whether the node's last look has found the other one's lock."""
    return other.presence.number in node.presence._tracker.present


def end_connection(node: Node) -> None:
    """Ends the connection that shows that the node lives, and no other one of it."""
    with psycopg.connect(node.database.url) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s AND granted",
            (node.presence.number,),
        )
        assert ended.fetchone() == (True,)


async def announced(node: Node) -> bool:
    rows = await node.rows("SELECT presence FROM workers WHERE id = %s", node.worker.id)
    return rows == [(node.presence.number,)]


@pytest.mark.rule(10)
@pytest.mark.failover("turns of a killed worker, before its lease ends")
async def test_turns_of_a_killed_worker_go_on_before_its_lease_ends(start_node, model: ObedientModel) -> None:
    killed, other = await start_node(**LEASE), await start_node(**LEASE)
    sessions = [await killed.create_session() for _ in range(5)]
    model.shut("work")
    turns = await asyncio.gather(*[killed.execute(session, "work") for session in sessions])
    await until(lambda: len(model.asked) == 5)
    await until(lambda: announced(killed))
    await killed.kill()
    await until(lambda: len(other.worker.engine.held) == 5)
    assert await other.rows("SELECT id FROM workers WHERE id = %s AND lease_expires_at > now()", killed.worker.id)
    model.open("work")
    for turn in await other.ended(*turns):
        assert (turn["status"], turn["attempt"], turn["fence"]) == ("completed", 2, 2)
        assert await other.names(turn["id"]) == ["turn.started", "turn.restarted", "turn.completed"]


async def test_a_worker_whose_connection_broke_keeps_its_turns(start_node, model: ObedientModel) -> None:
    # So much grace that no stall of the machine can be taken for a death.
    holder, other = await start_node(grace=60.0, **LEASE), await start_node(grace=60.0, **LEASE)
    _, turn_id = await running_turn(holder, model)
    back = asyncio.Event()
    holder.presence.on_change(back.set)
    url = holder.presence._url
    for _ in range(3):
        back.clear()
        holder.presence._url = NOWHERE
        end_connection(holder)
        await until(lambda: not sees(other, holder), "the other one misses it")
        await other.worker.reconciler.reconcile()
        holder.presence._url = url
        await back.wait()
        await until(lambda: sees(other, holder), "the other one has seen that it is back")
        await other.worker.reconciler.reconcile()
        assert turn_id in holder.worker.engine.held
        assert not other.worker.engine.held
    model.open("work")
    [turn] = await holder.ended(turn_id)
    assert (turn["status"], turn["attempt"], turn["fence"]) == ("completed", 1, 1)
    assert model.asked == ["work"]


async def test_a_worker_taken_for_dead_stops_its_turn_which_ends_once(start_node, model: ObedientModel) -> None:
    """It cannot take its lock anew in time, and otherwise reaches the database all the while."""
    holder, other = await start_node(**LEASE), await start_node(**LEASE)
    session, turn_id = await running_turn(holder, model)
    holder.presence._url = NOWHERE
    end_connection(holder)
    await until(lambda: turn_id in other.worker.engine.held)
    await until(lambda: turn_id not in holder.worker.engine.held)
    model.open("work")
    [turn] = await other.ended(turn_id)
    assert (turn["status"], turn["attempt"], turn["fence"]) == ("completed", 2, 2)
    assert await other.names(turn_id) == ["turn.started", "turn.restarted", "turn.completed"]
    assert await other.history(session) == [("user", "work"), ("assistant", "re: work")]


@pytest.mark.failover("turns of a worker whose lease ran out")
async def test_a_worker_that_is_not_present_is_judged_by_its_lease(start_node, model: ObedientModel) -> None:
    """Behind a pooler no process has a lock."""
    alone, killed = await start_node(present=False, **LEASE), await start_node(**LEASE)
    # It believes in leases that have run out as soon as the database has been up for as long as its own one.
    other = await start_node()
    sessions = [await alone.create_session() for _ in range(2)]
    model.shut("work")
    turn_id, lost = [await node.execute(s, "work") for node, s in zip((alone, killed), sessions, strict=True)]
    await until(lambda: len(model.asked) == 2)
    assert await other.rows("SELECT presence FROM workers WHERE id = %s", alone.worker.id) == [(None,)]
    await until(lambda: announced(killed))
    await killed.kill()
    # The look that finds the killed one gone finds no lock of the other one either.
    await never(lambda: turn_id in other.worker.engine.held, during=until(lambda: lost in other.worker.engine.held))
    assert turn_id in alone.worker.engine.held
    await alone.crash()
    await until(lambda: turn_id in other.worker.engine.held)
    model.open("work")
    for turn in await other.ended(turn_id, lost):
        assert turn["attempt"] == 2
