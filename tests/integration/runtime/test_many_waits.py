"""Many turns that wait or have ended cost the others nothing: counted in rows that the database reads."""

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import psycopg
import pytest

from services.runtime.domain.agents import AgentTask
from services.runtime.domain.turns import ClaimedTurn
from services.runtime.use_cases.engine.turn_journal import DatabaseJournal
from services.runtime.use_cases.run_turn import TurnContext
from tests.integration.runtime.conftest import StartNode
from tests.integration.runtime.waiting_turns import add_waiting_turns, remove_waiting_turns
from tests.support.agent_fakes import answering, calling
from tests.support.runtime_nodes import Node, ObedientModel, person
from tests.support.waiting import until

WAITING: Final = 5_000
ENDED: Final = 2_000
_READ: Final = """
    SELECT sum(seq_tup_read) + (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname = 'turns')
    FROM pg_stat_user_tables WHERE relname = 'turns'
"""


_OTHERS: Final = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


async def number(connection: psycopg.AsyncConnection[Any], query: str) -> int:
    row = await (await connection.execute(query)).fetchone()
    assert row is not None
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
        first, following = [await node.execute(session, f"{place} {question}") for place in ("first", "next")]
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


def objects_of_turns() -> int:
    """Counts the objects that a process has for the turns that it runs."""
    gc.collect()
    kinds = (ClaimedTurn, AgentTask, DatabaseJournal, TurnContext)
    return sum(isinstance(each, kinds) for each in gc.get_objects())


async def waiting_turns(node: Node, model: ObedientModel, numbers: range) -> list[tuple[str, str]]:
    turns = []
    for number in numbers:
        session = await node.create_session(agent_type="react_agent", tools=["pay"])
        model.scripts[f"buy {number}"] = [calling(("pay", {"text": "1"})), answering("Done.")]
        turns.append((session, await node.execute(session, f"buy {number}")))
    for _, turn_id in turns:
        await node.waiting(turn_id)
    await until(lambda: not node.worker.engine.present)
    return turns


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Gives a function that counts the bytes which the runtime's own code has allocated since and not freed."""
    own = tracemalloc.Filter(True, "*/services/runtime/*")

    def taken() -> int:
        gc.collect()
        return sum(each.size for each in tracemalloc.take_snapshot().filter_traces([own]).statistics("filename"))

    tracemalloc.start()
    try:
        yield taken
    finally:
        tracemalloc.stop()


@pytest.mark.slow(
    covered_by="unit/runtime/test_turn_engine.py::test_a_thousand_waiting_turns_leave_next_to_nothing_in_memory"
)
async def test_waiting_turns_leave_nothing_in_the_process(start_node: StartNode, model: ObedientModel) -> None:
    # Conversations are kept for a while whatever becomes of their turns; this node keeps one.
    node = await start_node(history_cache_characters=0)
    # Other tests of this process may have left some.
    before = objects_of_turns()
    caller = person("alice", "company-1", "runtime:approve")
    turns = await waiting_turns(node, model, range(10))
    with traced() as bytes_of_the_runtime:
        turns += await waiting_turns(node, model, range(10, 60))
        model.requests.clear()
        # What is under way just now has some, too; what is left of turns stays.
        await until(lambda: bytes_of_the_runtime() < 2048, pause=0.1)
    assert not node.worker.engine.present
    assert objects_of_turns() <= before
    for session, turn_id in turns:
        [action] = await node.waiting(turn_id)
        await node.resolve(session, turn_id, action["id"], caller, decision="approve")
    await node.ended(*[turn_id for _, turn_id in turns])
    assert len(model.asked) == 120
    before = objects_of_turns()
    model.shut("running")
    running = await node.execute(session, "running")
    await until(lambda: running in node.worker.engine.held)
    assert objects_of_turns() > before, "the count sees a turn that runs"
    model.open("running")
    await node.ended(running)
