"""Finds turns that need a worker, and takes them from workers that are gone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from libs.persistence import Database
from services.runtime.adapters.postgres.claims import LOCK_FREE_SESSIONS, claim, claimed_turns
from services.runtime.adapters.postgres.transactions import HotTransactions, translated
from services.runtime.adapters.postgres.turn_rows import CLAIMED_COLUMNS, CLAIMED_WIDTH, claimed_turn
from services.runtime.domain import turn_events
from services.runtime.domain.turns import ClaimedTurn, OrphanedTurn, TurnSnapshot

# After its own start the database cannot tell dead workers from those that could not reach it.
# One without a row was forgotten, and is as gone as one whose lease ran out.
_GONE: Final = """
    (w.lease_expires_at IS NULL OR w.lease_expires_at < clock_timestamp())
    AND clock_timestamp() > pg_postmaster_start_time() + make_interval(secs => %(lease)s)
"""
_ORPHANED: Final = f"(t.worker_id IS NULL OR t.id = ANY(%(unknown)s) OR (t.worker_id <> %(worker)s AND {_GONE}))"
_HELD: Final = "SELECT id, fence, status FROM turns WHERE worker_id = %s"
# A cancelled turn keeps its worker until that lets go: one that died is let go of here.
_STRAYS: Final = f"""
    SELECT {CLAIMED_COLUMNS}, t.worker_id, t.lost_attempts + (t.worker_id IS NOT NULL)::integer,
           coalesce(t.deadline < clock_timestamp(), false), t.status = 'cancelled'
    FROM turns t LEFT JOIN workers w ON w.id = t.worker_id
    WHERE (t.status = 'running' OR t.worker_id IS NOT NULL)
      AND ({_ORPHANED}
           OR (t.status = 'running' AND t.deadline < clock_timestamp() - make_interval(secs => %(grace)s)))
"""
# Who waits longest comes first: what does not fit is left to the next look.
_WAITING: Final = """
    SELECT q.session_id, count(*),
           bool_or(NOT EXISTS (SELECT FROM turns r WHERE r.session_id = q.session_id
                               AND (r.status = 'running' OR r.worker_id IS NOT NULL)))
    FROM turns q WHERE q.status = 'queued' GROUP BY q.session_id ORDER BY min(q.created_at)
"""
_DELETING: Final = "SELECT id FROM sessions WHERE status = 'deleting'"
# Locks out a renewal of these leases until the turns are taken.
_LOCK_WORKERS: Final = "SELECT id FROM workers WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
_TAKE: Final = f"""
    UPDATE turns t
    SET worker_id = %(worker)s, fence = t.fence + 1, attempt = t.attempt + 1,
        lost_attempts = t.lost_attempts + (t.worker_id IS NOT NULL)::integer,
        event_sequence = t.event_sequence + 1
    FROM turns o LEFT JOIN workers w ON w.id = o.worker_id
    WHERE o.id = t.id AND t.id = ANY(%(turns)s) AND t.session_id = ANY(%(sessions)s) AND t.status = 'running'
      AND t.lost_attempts + (t.worker_id IS NOT NULL)::integer < %(attempts)s AND {_ORPHANED}
    RETURNING {CLAIMED_COLUMNS}, t.event_sequence,
              coalesce((SELECT max(number) FROM steps WHERE turn_id = t.id), 0)
"""
# While turns name a worker, its row is what tells that they are orphans.
_FORGET_WORKERS: Final = """
    DELETE FROM workers w WHERE w.lease_expires_at < clock_timestamp() - interval '1 minute'
      AND NOT EXISTS (SELECT FROM turns t WHERE t.worker_id = w.id)
"""


class PostgresLeaseReclaimer:
    """``lease`` is the lease time of workers in seconds."""

    def __init__(
        self,
        database: Database,
        transactions: HotTransactions,
        *,
        worker_id: str,
        lease: float,
        turn_deadline: float,
    ) -> None:
        self._database = database
        self._transactions = transactions
        self._worker_id = worker_id
        self._lease = lease
        self._turn_deadline = turn_deadline

    async def overview(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        with translated():
            async with self._database.connection() as connection, connection.pipeline():
                held = await connection.execute(_HELD, (self._worker_id,))
                strays = await connection.execute(_STRAYS, {**self._orphan_parameters(unknown), "grace": overdue_grace})
                waiting = await connection.execute(_WAITING)
                deleting = await connection.execute(_DELETING)
                await connection.execute(_FORGET_WORKERS)
                backlog = await waiting.fetchall()
                return TurnSnapshot(
                    held={row[0]: (row[1], row[2]) for row in await held.fetchall()},
                    strays=tuple(_stray(row) for row in await strays.fetchall()),
                    claimable=tuple(row[0] for row in backlog if row[2]),
                    deleting=tuple(row[0] for row in await deleting.fetchall()),
                    queued=sum(row[1] for row in backlog),
                )

    async def claim(self, session_ids: Sequence[str], limit: int) -> list[ClaimedTurn]:
        async with self._transactions.begin() as transaction:
            locked = await transaction.connection.execute(LOCK_FREE_SESSIONS, (list(session_ids[:limit]),))
            sessions = [row[0] for row in await locked.fetchall()]
            if not sessions:
                return []
            claiming = await claim(
                transaction.connection, sessions, worker_id=self._worker_id, deadline=self._turn_deadline
            )
            claimed = claimed_turns(await claiming.fetchall())
            transaction.drafts.extend(started for _, started in claimed)
        return [turn for turn, _ in claimed]

    async def take_over(self, strays: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        ids = [stray.turn.id for stray in strays]
        async with self._transactions.begin() as transaction:
            connection = transaction.connection
            await connection.execute(_LOCK_WORKERS, ([s.worker_id for s in strays if s.worker_id],))
            locked = await connection.execute(LOCK_FREE_SESSIONS, (list({s.turn.session_id for s in strays}),))
            sessions = [row[0] for row in await locked.fetchall()]
            unknown = [stray.turn.id for stray in strays if stray.worker_id == self._worker_id]
            cursor = await connection.execute(
                _TAKE,
                {
                    **self._orphan_parameters(unknown),
                    "turns": ids,
                    "sessions": sessions,
                    "attempts": max_lost_attempts,
                },
            )
            taken = [(claimed_turn(row), row[CLAIMED_WIDTH], row[-1]) for row in await cursor.fetchall()]
            transaction.drafts.extend(turn_events.restarted(turn, step, sequence) for turn, sequence, step in taken)
        return [turn for turn, _, _ in taken]

    def _orphan_parameters(self, unknown: Sequence[str]) -> dict[str, Any]:
        return {"worker": self._worker_id, "lease": self._lease, "unknown": list(unknown)}


def _stray(row: tuple[Any, ...]) -> OrphanedTurn:
    return OrphanedTurn(claimed_turn(row), *row[CLAIMED_WIDTH:])
