"""Many waiting turns cost the others nothing: counted in rows that the database reads."""

from typing import Final

import psycopg

from tests.integration.runtime.conftest import StartNode
from tests.support.agent_fakes import answering, calling
from tests.support.runtime_nodes import Node, ObedientModel, person, until

WAITING: Final = 5_000
_SESSIONS: Final = """
    INSERT INTO sessions (id, company_id, owner_id, config, config_hash, next_position)
    SELECT 's' || n, 'company-1', 'alice', '{"agent_type": "react_agent"}', 'h', 1 FROM generate_series(1, %s) n
"""
_TURNS: Final = """
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, identity, correlation_id, stream,
                       event_sequence, user_message_id, started_at, finished_at)
    SELECT kind || n, 's' || n, 'company-1', place, status, 1, 1, '{}', 'r', false, 3, 'm' || n, now(), now()
    FROM generate_series(1, %s) n,
         (VALUES ('waiting', 1, 'waiting'), ('before', 0, 'completed')) AS kinds (kind, place, status)
"""
_ACTIONS: Final = """
    INSERT INTO actions (id, turn_id, session_id, company_id, owner_id, kind, step, call_id, tool_call, call_hash,
                         expires_at)
    SELECT 'a' || n, 'waiting' || n, 's' || n, 'company-1', 'alice', 'approval', 1, 'c1',
           json_build_object('id', 'c1', 'name', 'pay', 'arguments', json_build_object('text', repeat('x', 100))),
           repeat('f', 64), now() + interval '1 day'
    FROM generate_series(1, %s) n
"""
_READ: Final = """
    SELECT sum(seq_tup_read) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'turns')
    FROM pg_stat_user_tables WHERE relname = 'turns'
"""


async def rows_read(url: str) -> int:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        row = await (await connection.execute(_READ)).fetchone()
        assert row is not None
        return int(row[0])


async def plain_work(start_node: StartNode, model: ObedientModel, database_url: str) -> int:
    """Turns, admissions behind others, looks and a take-over; the rows of ``turns`` that were read for them."""
    before = await rows_read(database_url)
    dead, node = await start_node(reconciling=False), await start_node(reconciling=False)
    for number in range(10):
        session = await node.create_session()
        await node.ended(await node.execute(session, f"first {number}"), await node.execute(session, f"next {number}"))
    model.shut("stuck")
    lost = await dead.execute(await dead.create_session(), "stuck")
    await dead.crash()
    model.open("stuck")
    await until(lambda: _looked(node, lost))
    # The backends count what they read when they end.
    await dead.close()
    await node.close()
    return await rows_read(database_url) - before


async def _looked(node: Node, turn_id: str) -> bool:
    await node.worker.reconciler.reconcile()
    return (await node.turn(turn_id))["finished_at"] is not None


async def test_nobody_reads_the_rows_of_waiting_turns(
    start_node: StartNode, database_url: str, model: ObedientModel
) -> None:
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        for statement in (_SESSIONS, _TURNS, _ACTIONS):
            await connection.execute(statement, (WAITING,))
        await connection.execute("ANALYZE turns, actions, sessions")
    read = await plain_work(start_node, model, database_url)
    assert read < WAITING, "a single walk over them would read more"


async def test_waiting_turns_leave_nothing_in_the_process(node: Node, model: ObedientModel) -> None:
    caller = person("alice", "company-1", "runtime:approve")
    turns = []
    for number in range(50):
        session = await node.create_session(agent_type="react_agent", tools=["pay"])
        model.scripts[f"buy {number}"] = [calling(("pay", {"text": "1"})), answering("Done.")]
        turns.append((session, await node.execute(session, f"buy {number}")))
    for _, turn_id in turns:
        await node.waiting(turn_id)
    await until(lambda: not node.worker.engine.present)
    assert node.worker.engine.free_slots() == node.settings.max_running_turns
    for session, turn_id in turns:
        [action] = await node.waiting(turn_id)
        await node.resolve(session, turn_id, action["id"], caller, decision="approve")
    await node.ended(*[turn_id for _, turn_id in turns])
    assert len(model.asked) == 100
