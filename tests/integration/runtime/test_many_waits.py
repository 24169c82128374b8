"""Many turns that wait or have ended cost the others nothing: counted in rows that the database reads."""

from typing import Any, Final

import psycopg
from psycopg import sql

from tests.integration.runtime.conftest import StartNode
from tests.support.runtime_nodes import Node, ObedientModel
from tests.support.waiting import until

WAITING: Final = 5_000
ENDED: Final = 2_000
_READ: Final = """
    SELECT sum(seq_tup_read) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'turns')
    FROM pg_stat_user_tables WHERE relname = 'turns'
"""
_OTHERS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
_SESSIONS: Final = """
    INSERT INTO sessions (id, company_id, owner_id, config, config_hash, next_position)
    SELECT 'waiting-s' || n, %(company)s, 'alice', '{"agent_type": "react_agent"}', 'h', 1
    FROM generate_series(1, %(count)s) n
"""
_TURNS: Final = """
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, identity, correlation_id, request,
                       event_sequence, user_message_id, started_at, finished_at)
    SELECT 'waiting-' || kind || n, 'waiting-s' || n, %(company)s, place, status, 1, 1, '{}', 'r', '{}', 3, 'm' || n,
           now(), now()
    FROM generate_series(1, %(count)s) n,
         (VALUES ('now', 1, 'waiting'), ('before', 0, 'completed')) AS kinds (kind, place, status)
"""
_WAITS: Final = """
    INSERT INTO waits (id, turn_id, session_id, company_id, owner_id, kind, step, call_id, payload, expires_at)
    SELECT 'waiting-a' || n, 'waiting-now' || n, 'waiting-s' || n, %(company)s, 'alice', 'approval', 1, 'c1',
           json_build_object('tool_call', json_build_object(
               'id', 'c1', 'name', 'pay', 'arguments', json_build_object('text', repeat('x', 100)))),
           now() + interval '1 day'
    FROM generate_series(1, %(count)s) n
"""


async def add_waiting_turns(url: str, company_id: str, count: int, *, analyzed: bool = True) -> None:
    """Adds sessions with a completed turn and one that waits, by SQL: thousands of them are there in a moment."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for statement in (_SESSIONS, _TURNS, _WAITS):
            await connection.execute(statement, {"company": company_id, "count": count})
        if analyzed:
            await connection.execute("ANALYZE turns, waits, sessions")


async def remove_waiting_turns(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for table in ("waits", "turns", "sessions"):
            name = sql.Identifier(table)
            await connection.execute(sql.SQL("DELETE FROM {} WHERE id LIKE 'waiting-%'").format(name))
            await connection.execute(sql.SQL("VACUUM ANALYZE {}").format(name))


async def number(connection: psycopg.AsyncConnection[Any], query: str) -> int:
    row = await (await connection.execute(query)).fetchone()
    return int(row[0])


async def rows_read(url: str) -> int:
    """Exact when nobody else uses the database: backends have counted what they read when they are gone."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:

        async def alone() -> bool:
            return await number(connection, _OTHERS) == 0

        await until(alone, "the others have left the database")
        return await number(connection, _READ)


async def plain_work(start_node: StartNode, model: ObedientModel, database_url: str) -> int:
    """Turns, admissions behind others, looks and a take-over; the rows of ``turns`` that were read for them."""
    before = await rows_read(database_url)
    dead, node = await start_node(reconciling=False), await start_node(reconciling=False)
    for question in range(10):
        session = await node.create_session()
        first, following = [await node.execute(session, f"{order} {question}") for order in ("first", "next")]
        await node.ended(first, following)
    model.shut("stuck")
    lost = await dead.execute(await dead.create_session(), "stuck")
    await dead.crash()
    model.open("stuck")
    await until(lambda: _looked(node, lost))
    await dead.close()
    await node.close()
    return await rows_read(database_url) - before


async def _looked(node: Node, turn_id: str) -> bool:
    await node.worker.reconciler.reconcile()
    return (await node.turn(turn_id))["finished_at"] is not None


async def test_nobody_reads_the_rows_of_waiting_turns(
    start_node: StartNode, database_url: str, model: ObedientModel
) -> None:
    await add_waiting_turns(database_url, "company-1", WAITING)
    read = await plain_work(start_node, model, database_url)
    assert read < WAITING, "a single walk over them would read more"
    await remove_waiting_turns(database_url)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        left = await (await connection.execute("SELECT count(*) FROM turns WHERE status = 'waiting'")).fetchone()
    assert left == (0,)


async def add_turns_that_ended_just_now(url: str, company_id: str, count: int) -> None:
    """Neither vacuumed nor analyzed since: the index of live turns still has entries for all of them."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute("ALTER TABLE turns SET (autovacuum_enabled = false)")
        await add_waiting_turns(url, company_id, count, analyzed=False)
        for status in ("running", "completed"):
            await connection.execute("UPDATE turns SET status = %s WHERE id LIKE 'waiting-now%%'", (status,))
        last = await number(connection, "SELECT pg_current_xact_id()")

        async def unseen() -> bool:
            return await number(connection, "SELECT pg_snapshot_xmin(pg_current_snapshot())") > last

        # Transactions of other tests hold entries in the index for as long as they may be older than these changes.
        await until(unseen, "nobody sees the turns as they were")


async def test_turns_that_have_ended_since_the_last_vacuum_are_read_only_once(
    start_node: StartNode, database_url: str, model: ObedientModel
) -> None:
    await add_turns_that_ended_just_now(database_url, "company-1", ENDED)
    read = await plain_work(start_node, model, database_url)
    # Once in each of two indexes.
    assert 2 * ENDED < read < 3 * ENDED, "each of the twenty admissions would read them"
