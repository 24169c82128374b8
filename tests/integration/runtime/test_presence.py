"""Turns of workers that were killed go on at once; a broken connection alone takes no turn from its worker twice."""

import asyncio

import psycopg
import pytest

from tests.integration.runtime.conftest import running_turn
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import never, until

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
