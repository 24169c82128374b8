"""Maintains webhooks in PostgreSQL: deletes old deliveries, replaces ciphertexts and measures the backlog."""

from datetime import datetime, timedelta
from typing import Final

from libs.persistence import Database
from libs.secrets import SecretCipher
from libs.secrets.stored import WEBHOOK_SECRETS, Rotation
from services.timeline.domain.ports import Backlog

_DELETE_SETTLED: Final = """
DELETE FROM webhook_deliveries WHERE id IN (
    SELECT id FROM webhook_deliveries WHERE status <> 'pending' AND created_at < %s ORDER BY created_at LIMIT %s)
"""
_DELETE_PENDING: Final = """
WITH old AS (
    SELECT d.id FROM webhooks w JOIN webhook_deliveries d ON d.webhook_id = w.id
    WHERE w.status = 'disabled' AND w.pending > 0 AND d.status = 'pending' AND d.created_at < %s LIMIT %s
), gone AS (
    DELETE FROM webhook_deliveries d USING old WHERE d.id = old.id RETURNING d.webhook_id
), counted AS (
    SELECT webhook_id, count(*) AS deleted FROM gone GROUP BY webhook_id
), forgotten AS (
    UPDATE webhooks w SET pending = w.pending - c.deleted FROM counted c WHERE w.id = c.webhook_id
)
SELECT count(*) FROM gone
"""
_DELETE_OF_DELETED: Final = """
DELETE FROM webhook_deliveries WHERE id IN (
    SELECT d.id FROM webhooks w JOIN webhook_deliveries d ON d.webhook_id = w.id
    WHERE w.deleted_at IS NOT NULL LIMIT %s)
"""
# The outbox may have been purged while the webhook's last event was still in it.
_DELETE_WEBHOOKS: Final = """
WITH gone AS (
    DELETE FROM webhooks w WHERE w.deleted_at < now() - interval '1 minute'
        AND NOT EXISTS (SELECT FROM webhook_deliveries d WHERE d.webhook_id = w.id)
    RETURNING w.id::text
)
DELETE FROM event_sequences WHERE subject IN (SELECT id FROM gone)
"""
# A webhook that failed within this time is waiting for its endpoint. Longer than any pause plus the attempts before it.
_ATTEMPTED: Final = timedelta(minutes=5)
_BACKLOG: Final = """
SELECT coalesce(sum(w.pending), 0)::bigint,
    coalesce(extract(epoch FROM %(now)s - min(d.waits_since)), 0)::float8,
    coalesce(max(c.position - w.cursor) FILTER (WHERE (w.last_failed_at > %(attempted)s) IS NOT TRUE), 0)::bigint
FROM webhooks w LEFT JOIN timeline_counters c ON c.company_id = w.company_id::text
LEFT JOIN LATERAL (
    SELECT greatest(next_attempt_at, w.last_failed_at) AS waits_since FROM webhook_deliveries
    WHERE webhook_id = w.id AND status = 'pending' AND next_attempt_at IS NOT NULL ORDER BY next_attempt_at LIMIT 1
) d ON w.pending > 0 AND (w.last_failed_at > %(attempted)s) IS NOT TRUE
WHERE w.status = 'enabled' AND w.deleted_at IS NULL
"""


class PostgresWebhookMaintenance:
    """Does periodic work on all webhooks. Any number of processes may do it concurrently."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def purge(self, *, now: datetime, keep: timedelta, keep_pending: timedelta, limit: int) -> int:
        """Deletes up to ``limit`` old deliveries, including those of deleted webhooks. Returns their number.

        Pending deliveries are deleted only if their webhook is disabled.
        """
        async with self._database.connection() as connection:
            settled = await connection.execute(_DELETE_SETTLED, (now - keep, limit))
            waiting = await (await connection.execute(_DELETE_PENDING, (now - keep_pending, limit))).fetchone()
            orphans = await connection.execute(_DELETE_OF_DELETED, (limit,))
            await connection.execute(_DELETE_WEBHOOKS)
        return settled.rowcount + orphans.rowcount + (int(waiting[0]) if waiting else 0)

    async def reencrypt(self, cipher: SecretCipher) -> Rotation:
        async with self._database.connection() as connection:
            return await WEBHOOK_SECRETS.rotate(connection, cipher)

    async def backlog(self, *, now: datetime) -> Backlog:
        values = {"now": now, "attempted": now - _ATTEMPTED}
        ((pending, overdue, behind),) = await self._database.execute(_BACKLOG, values)
        return Backlog(pending, max(0.0, overdue), max(0, behind))
