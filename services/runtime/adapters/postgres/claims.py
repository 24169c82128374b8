"""Claims queued turns, one per idle session. Each claim increments the fencing token that guards later writes."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final

from psycopg import AsyncCursor
from psycopg.rows import TupleRow

from libs.contracts.identity import Identity
from libs.contracts.messages import Draft, MessageContext
from libs.contracts.resources.turns import TurnRequest
from libs.persistence import Connection
from services.runtime.domain.turns import ClaimedTurn

LIVE: Final = "(status IN ('queued', 'running') OR worker_id IS NOT NULL)"
"""Selects queued and running turns, and cancelled ones whose execution hasn't ended. Also used by ix_turns_live."""

CLAIMED_COLUMNS: Final = """
    t.id, t.session_id, t.position, t.attempt, t.fence, t.user_message_id, t.identity::text,
    t.company_id, t.correlation_id, t.traceparent, t.watches > 0,
    coalesce(extract(epoch FROM t.deadline - clock_timestamp()), 0)::float8, t.event_sequence,
    (SELECT owner_id FROM sessions WHERE id = t.session_id), t.request::text,
    t.worked + coalesce(extract(epoch FROM clock_timestamp() - t.claimed_at), 0)::float8, t.lost_attempts
"""
CLAIMED_WIDTH: Final = 17
# Sessions are locked in the same order everywhere, so that two batches can't deadlock.
LOCK_SESSIONS: Final = "SELECT id FROM sessions WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
# The reconciler skips locked sessions, because the transaction that has locked a session also handles its queue.
LOCK_FREE_SESSIONS: Final = f"{LOCK_SESSIONS} SKIP LOCKED"
_CLAIM: Final = f"""
    UPDATE turns t
    -- A turn that resumes after a wait keeps its attempt and already has a start event.
    SET status = 'running', worker_id = %(worker)s, fence = t.fence + 1, attempt = greatest(t.attempt, 1),
        started_at = coalesce(t.started_at, now()), claimed_at = now(),
        deadline = now() + make_interval(secs => %(deadline)s),
        event_sequence = t.event_sequence + (t.fence = 0)::integer
    FROM (
        SELECT DISTINCT ON (q.session_id) q.id FROM turns q
        WHERE q.session_id = ANY(%(sessions)s) AND q.status = 'queued'
          -- A cancelled turn can still write steps until its worker releases it.
          AND NOT EXISTS (SELECT FROM turns r WHERE r.session_id = q.session_id
                          AND (r.status = 'running' OR r.worker_id IS NOT NULL))
          AND NOT EXISTS (SELECT FROM turns w WHERE w.session_id = q.session_id AND w.status = 'waiting')
        ORDER BY q.session_id, q.position
    ) lowest
    WHERE t.id = lowest.id
    RETURNING {CLAIMED_COLUMNS}
"""


async def claim(
    connection: Connection, session_ids: Collection[str], *, worker_id: str, deadline: float
) -> AsyncCursor[TupleRow]:
    """Claims turns in sessions that the caller's transaction has locked. Parse the rows with ``claimed_turns``."""
    return await connection.execute(_CLAIM, {"sessions": list(session_ids), "worker": worker_id, "deadline": deadline})


def claimed_turns(rows: Sequence[tuple[Any, ...]]) -> tuple[list[ClaimedTurn], list[Draft]]:
    """Returns the claimed turns, and start events for those that haven't run before."""
    turns = [claimed_turn(row) for row in rows]
    # After a claim, a turn only returns to the queue if it was waiting.
    turns = [replace(turn, after_wait=turn.fence > 1) for turn in turns]
    return turns, [turn.started() for turn in turns if not turn.after_wait]


def claimed_turn(row: tuple[Any, ...]) -> ClaimedTurn:
    """Parses the first ``CLAIMED_WIDTH`` columns of a row."""
    request = TurnRequest.model_validate_json(row[14])
    return ClaimedTurn(
        id=row[0],
        session_id=row[1],
        position=row[2],
        attempt=row[3],
        fence=row[4],
        user_message_id=row[5],
        caller=identity_from(row[6]),
        message_context=MessageContext(row[7], row[8], row[0], row[9], owner_id=row[13]),
        request=request,
        stream=request.stream or row[10],
        seconds_left=row[11],
        sequence=row[12],
        worked=row[15],
        lost_attempts=row[16],
    )


@lru_cache(maxsize=1024)
def identity_from(text: str) -> Identity:
    return Identity.model_validate_json(text)


@lru_cache(maxsize=1024)
def identity_json(identity: Identity) -> str:
    """Encodes the identity. Equal identities have the same text, so that parsing hits the cache."""
    return identity.model_dump_json()
