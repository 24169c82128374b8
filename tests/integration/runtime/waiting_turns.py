"""Rows of turns that wait for an approval, written by SQL: thousands of them are there in a moment."""

from typing import Final

import psycopg
from psycopg import sql

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
    """Adds sessions with a completed turn and one that waits for an approval, to a database of the runtime."""
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
