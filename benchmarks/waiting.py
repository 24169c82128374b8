"""Measures what waiting turns cost the others: `python -m benchmarks.waiting`, five minutes on a quiet machine.

Starts a stack of its own beside the one in use. Each round measures plain turns without and with waiting turns of the
same company in the store.
"""

import argparse
import asyncio
import json
from statistics import median
from typing import Final

import psycopg
from psycopg import sql

from benchmarks.figures import Window
from benchmarks.scenarios import FULL, Plan
from benchmarks.stack import benchmark_home, remove
from benchmarks.turns import Bench, open_bench
from deploy.local.credentials import Credentials
from deploy.local.stack import postgres_of

_SCENARIOS: Final = ["turns-1", "turns-16"]
_SESSIONS: Final = """
    INSERT INTO sessions (id, company_id, owner_id, config, config_hash, next_position)
    SELECT 'waiting-s' || n, %(company)s, 'alice', '{"agent_type": "react_agent"}', 'h', 1
    FROM generate_series(1, %(count)s) n
"""
_TURNS: Final = """
    INSERT INTO turns (id, session_id, company_id, position, status, attempt, fence, identity, correlation_id, stream,
                       event_sequence, user_message_id, started_at, finished_at)
    SELECT 'waiting-' || kind || n, 'waiting-s' || n, %(company)s, place, status, 1, 1, '{}', 'r', false, 3, 'm' || n,
           now(), now()
    FROM generate_series(1, %(count)s) n,
         (VALUES ('now', 1, 'waiting'), ('before', 0, 'completed')) AS kinds (kind, place, status)
"""
_ACTIONS: Final = """
    INSERT INTO actions (id, turn_id, session_id, company_id, owner_id, kind, step, call_id, tool_call, call_hash,
                         expires_at)
    SELECT 'waiting-a' || n, 'waiting-now' || n, 'waiting-s' || n, %(company)s, 'alice', 'approval', 1, 'c1',
           json_build_object('id', 'c1', 'name', 'pay', 'arguments', json_build_object('text', repeat('x', 100))),
           repeat('f', 64), now() + interval '1 day'
    FROM generate_series(1, %(count)s) n
"""


async def add_waiting_turns(url: str, company_id: str, count: int, *, analyzed: bool = True) -> None:
    """Adds sessions with a completed turn and one that waits for an approval, to a database of the runtime."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for statement in (_SESSIONS, _TURNS, _ACTIONS):
            await connection.execute(statement, {"company": company_id, "count": count})
        if analyzed:
            await connection.execute("ANALYZE turns, actions, sessions")


async def remove_waiting_turns(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        for table in ("actions", "turns", "sessions"):
            name = sql.Identifier(table)
            await connection.execute(sql.SQL("DELETE FROM {} WHERE id LIKE 'waiting-%'").format(name))
            await connection.execute(sql.SQL("VACUUM ANALYZE {}").format(name))


async def measure(count: int, rounds: int) -> dict[str, dict[str, float]]:
    """Returns p50 in ms without and with waiting turns, and the median of the rounds' ratios, for each scenario."""
    home = benchmark_home("waiting-benchmark")
    await asyncio.to_thread(remove, home)
    home.create()
    plan = FULL.only(_SCENARIOS)
    try:
        async with open_bench(home, ("aes",)) as bench:
            url = postgres_of(home, Credentials.load_or_create(home.credentials_file)).url("runtime")
            await _windows(bench, plan, 0)
            company_id = await _company(url)
            pairs = []
            for number in range(1, rounds + 1):
                without = await _windows(bench, plan, number)
                await add_waiting_turns(url, company_id, count)
                pairs.append((without, await _windows(bench, plan, number)))
                await remove_waiting_turns(url)
    finally:
        await asyncio.shield(asyncio.to_thread(remove, home))
    return {
        name: {
            "p50_without_ms": round(median(without[name].p50 for without, _ in pairs), 2),
            "p50_with_ms": round(median(with_[name].p50 for _, with_ in pairs), 2),
            "ratio": round(median(with_[name].p50 / without[name].p50 for without, with_ in pairs), 3),
        }
        for name in _SCENARIOS
    }


async def _windows(bench: Bench, plan: Plan, number: int) -> dict[str, Window]:
    return {each.name: await bench.measure(plan, each, "aes", number) for each in plan.scenarios}


async def _company(url: str) -> str:
    """The company whose turns are measured: its waiting turns are those that its admissions could come across."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        row = await (await connection.execute("SELECT company_id FROM sessions LIMIT 1")).fetchone()
    assert row is not None
    return str(row[0])


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure plain turns without and with waiting turns in the store.")
    parser.add_argument("--waiting", type=int, default=10_000, help="waiting turns (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (%(default)s)")
    options = parser.parse_args()
    print(json.dumps(asyncio.run(measure(options.waiting, options.rounds)), indent=2))


if __name__ == "__main__":
    main()
