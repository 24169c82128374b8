"""Manages workers' leases by the database's clock, and takes over the turns of dead workers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from libs.eventing import Outbox
from libs.persistence import Database, Presence
from services.runtime.adapters.postgres.claims import (
    CLAIMED_COLUMNS,
    CLAIMED_WIDTH,
    LOCK_FREE_SESSIONS,
    claim,
    claimed_turn,
    claimed_turns,
)
from services.runtime.domain.turns import ClaimedTurn, OrphanedTurn, TurnSnapshot

# Limits the rows per query, since a dead worker may have left many turns. The limit exceeds a worker's slots.
_AT_ONCE: Final = 500
_RENEW: Final = """
    INSERT INTO workers (id, lease_expires_at, presence)
    VALUES (%(worker)s, clock_timestamp() + make_interval(secs => %(lease)s), %(presence)s)
    ON CONFLICT (id) DO UPDATE SET lease_expires_at = EXCLUDED.lease_expires_at, presence = EXCLUDED.presence
"""
_RELEASE: Final = "DELETE FROM workers WHERE id = %s"
_PRESENCES: Final = "SELECT presence FROM workers WHERE presence IS NOT NULL AND id <> %s"
# After a restart, the database can't distinguish dead workers from those that couldn't renew their leases meanwhile. A
# worker without a row counts as dead.
_GONE: Final = """
    (w.presence = ANY(%(gone)s)
     OR (w.lease_expires_at IS NULL OR w.lease_expires_at < clock_timestamp())
        AND clock_timestamp() > pg_postmaster_start_time() + make_interval(secs => %(lease)s))
"""
_IS_ORPHANED: Final = f"(t.worker_id IS NULL OR t.id = ANY(%(unknown)s) OR (t.worker_id <> %(worker)s AND {_GONE}))"
_HELD: Final = "SELECT id, fence, status, watches FROM turns WHERE worker_id = %s"
# A cancelled turn keeps its worker until its execution stops. If the worker has died, the turn is released here.
_ORPHANS: Final = f"""
    SELECT {CLAIMED_COLUMNS}, t.worker_id, t.lost_attempts + (t.worker_id IS NOT NULL)::integer,
           coalesce(t.deadline < clock_timestamp(), false), t.status = 'cancelled'
    FROM turns t LEFT JOIN workers w ON w.id = t.worker_id
    WHERE (t.status = 'running' OR t.worker_id IS NOT NULL)
      AND ({_IS_ORPHANED}
           OR (t.status = 'running' AND t.deadline < clock_timestamp() - make_interval(secs => %(grace)s)))
    ORDER BY t.deadline NULLS FIRST LIMIT {_AT_ONCE}
"""
# The first turn of each idle session, oldest first. Companies take turns, so that the limit includes all of them. The
# next pass handles the rest.
_CLAIMABLE: Final = f"""
    SELECT q.company_id, q.session_id FROM turns q WHERE q.status = 'queued'
      AND NOT EXISTS (SELECT FROM turns r WHERE r.session_id = q.session_id
                      AND (r.status = 'running' OR r.worker_id IS NOT NULL OR r.status = 'queued'
                           AND r.position < q.position))
      AND NOT EXISTS (SELECT FROM turns w WHERE w.session_id = q.session_id AND w.status = 'waiting')
    ORDER BY row_number() OVER (PARTITION BY q.company_id ORDER BY q.created_at), q.created_at LIMIT {_AT_ONCE}
"""
_QUEUED: Final = "SELECT count(*) FROM turns WHERE status = 'queued'"
# Each wait is resolved in its own transaction, so a small batch keeps the rest of the reconciler's pass on time.
_DUE: Final = """
    SELECT session_id, turn_id FROM (
        (SELECT session_id, turn_id, expires_at AS at FROM waits WHERE state = 'open' AND expires_at <= now()
         ORDER BY expires_at LIMIT 100)
        UNION ALL
        (SELECT session_id, turn_id, due_at FROM waits WHERE state = 'open' AND due_at <= now()
         ORDER BY due_at LIMIT 100)) due
    GROUP BY session_id, turn_id ORDER BY min(at)
"""
_OPEN_WAITS: Final = "SELECT count(*) FROM waits WHERE state = 'open'"
_DELETING: Final = f"SELECT id FROM sessions WHERE status = 'deleting' ORDER BY id LIMIT {_AT_ONCE}"
# Blocks renewals of these leases until their turns are taken over.
_LOCK_WORKERS: Final = "SELECT id FROM workers WHERE id = ANY(%s) ORDER BY id FOR UPDATE"
_TAKE: Final = f"""
    UPDATE turns t
    SET worker_id = %(worker)s, fence = t.fence + 1, attempt = t.attempt + 1,
        lost_attempts = t.lost_attempts + (t.worker_id IS NOT NULL)::integer,
        event_sequence = t.event_sequence + 1
    FROM turns o LEFT JOIN workers w ON w.id = o.worker_id
    WHERE o.id = t.id AND t.id = ANY(%(turns)s) AND t.session_id = ANY(%(sessions)s) AND t.status = 'running'
      AND t.lost_attempts + (t.worker_id IS NOT NULL)::integer < %(attempts)s AND {_IS_ORPHANED}
    RETURNING {CLAIMED_COLUMNS}, coalesce((SELECT max(number) FROM steps WHERE turn_id = t.id), 0)
"""
# A dead worker's row is kept while turns refer to it, because it shows that they're orphaned.
_FORGET_WORKERS: Final = """
    DELETE FROM workers w WHERE w.lease_expires_at < clock_timestamp() - interval '1 minute'
      AND NOT EXISTS (SELECT FROM turns t WHERE t.worker_id = w.id)
"""


@dataclass(frozen=True, slots=True)
class PostgresWorkerLease:
    """This worker's lease. An expired lease can be renewed, because taken-over turns have a newer fencing token."""

    database: Database
    presence: Presence
    worker_id: str
    lease: float

    async def renew(self) -> None:
        renewal = {"worker": self.worker_id, "lease": self.lease, "presence": self.presence.announced}
        await self.database.execute(_RENEW, renewal)

    async def release(self) -> None:
        await self.database.execute(_RELEASE, (self.worker_id,))


@dataclass(slots=True)
class PostgresLeaseReclaimer:
    """Takes over turns of dead workers. A worker is dead if its lease has expired or its process has disappeared."""

    database: Database
    outbox: Outbox
    presence: Presence
    worker_id: str
    lease: float
    turn_deadline: float
    _others: list[int] = field(default_factory=list, init=False)

    async def snapshot(self, unknown: Sequence[str], overdue_grace: float) -> TurnSnapshot:
        async with self.database.pipelined() as connection:
            held = await connection.execute(_HELD, (self.worker_id,))
            orphans = await connection.execute(_ORPHANS, {**self._orphan_parameters(unknown), "grace": overdue_grace})
            claimable = await connection.execute(_CLAIMABLE)
            queued = await connection.execute(_QUEUED)
            deleting = await connection.execute(_DELETING)
            due = await connection.execute(_DUE)
            await connection.execute(_FORGET_WORKERS)
            presences = await connection.execute(_PRESENCES, (self.worker_id,))
        self._others = [row[0] for row in await presences.fetchall()]
        own = await held.fetchall()
        return TurnSnapshot(
            held={row[0]: (row[1], row[2]) for row in own},
            watches={row[0]: row[3] for row in own if row[3]},
            orphans=tuple(_orphan(row) for row in await orphans.fetchall()),
            claimable=tuple((row[0], row[1]) for row in await claimable.fetchall()),
            deleting=tuple(row[0] for row in await deleting.fetchall()),
            queued=sum(row[0] for row in await queued.fetchall()),
            due=tuple((row[0], row[1]) for row in await due.fetchall()),
        )

    async def open_waits(self) -> int:
        return int(await self.database.value(_OPEN_WAITS))

    async def claim(self, session_ids: Sequence[str]) -> list[ClaimedTurn]:
        async with self.outbox.pipelined() as transaction:
            locked = await transaction.connection.execute(LOCK_FREE_SESSIONS, (list(session_ids),))
            sessions = [row[0] for row in await locked.fetchall()]
            if not sessions:
                return []
            claiming = await claim(
                transaction.connection, sessions, worker_id=self.worker_id, deadline=self.turn_deadline
            )
            claimed, started = claimed_turns(await claiming.fetchall())
            transaction.drafts.extend(started)
        return claimed

    async def reclaim(self, orphans: Sequence[OrphanedTurn], max_lost_attempts: int) -> list[ClaimedTurn]:
        ids = [orphan.turn.id for orphan in orphans]
        async with self.outbox.pipelined() as transaction:
            connection = transaction.connection
            await connection.execute(_LOCK_WORKERS, ([o.worker_id for o in orphans if o.worker_id],))
            locked = await connection.execute(LOCK_FREE_SESSIONS, (list({o.turn.session_id for o in orphans}),))
            sessions = [row[0] for row in await locked.fetchall()]
            unknown = [orphan.turn.id for orphan in orphans if orphan.worker_id == self.worker_id]
            cursor = await connection.execute(
                _TAKE,
                {
                    **self._orphan_parameters(unknown),
                    "turns": ids,
                    "sessions": sessions,
                    "attempts": max_lost_attempts,
                },
            )
            taken = [(claimed_turn(row), row[CLAIMED_WIDTH]) for row in await cursor.fetchall()]
            transaction.drafts.extend(turn.restarted(step) for turn, step in taken)
        return [turn for turn, _ in taken]

    def _orphan_parameters(self, unknown: Sequence[str]) -> dict[str, Any]:
        return {
            "worker": self.worker_id,
            "lease": self.lease,
            "unknown": list(unknown),
            # A worker only counts as dead if the previous pass has already seen it.
            "gone": list(self.presence.gone(self._others)),
        }


def _orphan(row: tuple[Any, ...]) -> OrphanedTurn:
    return OrphanedTurn(claimed_turn(row), *row[CLAIMED_WIDTH:])
