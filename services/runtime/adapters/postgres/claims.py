"""Gives queued turns to this worker, one per idle session, the lowest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.eventing import EventDraft
from libs.persistence import Connection
from services.runtime.adapters.postgres.turn_rows import CLAIMED_COLUMNS, CLAIMED_WIDTH, claimed_turn
from services.runtime.domain import turn_events
from services.runtime.domain.turns import ClaimedTurn

# In one order everywhere, so that two batches cannot wait for each other.
LOCK_SESSIONS: Final = "SELECT id FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
# For who only looks whether there is something to do: whoever holds a session sees to its queue anyway.
LOCK_FREE_SESSIONS: Final = f"{LOCK_SESSIONS} SKIP LOCKED"
_CLAIM: Final = f"""
    UPDATE turns t
    SET status = 'running', worker_id = %(worker)s, fence = t.fence + 1, attempt = t.attempt + 1,
        started_at = now(), deadline = now() + make_interval(secs => %(deadline)s),
        event_sequence = t.event_sequence + 1
    FROM (
        SELECT DISTINCT ON (q.session_id) q.id FROM turns q
        WHERE q.session_id = ANY(%(sessions)s) AND q.status = 'queued'
          -- A cancelled turn whose worker has not let go of it yet may still write steps.
          AND NOT EXISTS (SELECT FROM turns r WHERE r.session_id = q.session_id
                          AND (r.status = 'running' OR r.worker_id IS NOT NULL))
        ORDER BY q.session_id, q.position
    ) lowest
    WHERE t.id = lowest.id
    RETURNING {CLAIMED_COLUMNS}, t.event_sequence
"""


async def claim(
    connection: Connection, session_ids: Sequence[str], *, worker_id: str, deadline: float
) -> AsyncCursor[TupleRow]:
    """Claim in sessions that the caller's transaction has locked; ``claimed_turns`` reads the result."""
    return await connection.execute(_CLAIM, {"sessions": list(session_ids), "worker": worker_id, "deadline": deadline})


def claimed_turns(rows: Sequence[tuple[Any, ...]]) -> list[tuple[ClaimedTurn, EventDraft]]:
    """Claimed turns, each with its start event."""
    turns = [(claimed_turn(row), row[CLAIMED_WIDTH]) for row in rows]
    return [(turn, turn_events.started(turn, sequence)) for turn, sequence in turns]
