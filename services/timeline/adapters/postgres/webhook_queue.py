"""Stores deliveries, and workers' claims of webhooks, in PostgreSQL."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.identifiers import new_id
from libs.contracts.messages import MessageContext
from libs.contracts.timeline import RecordedEvent
from libs.contracts.timestamps import format_time
from libs.eventing import Outbox, Transaction
from libs.persistence import Database, Presence, fetch_records, retry_until_available
from services.timeline.adapters.postgres.webhooks import COLUMNS, RESUME_CHAINS, webhook_of
from services.timeline.domain.deliveries import (
    LONGEST_REST,
    REST_DIVISOR,
    AttemptOutcome,
    Delivery,
    DeliveryStatus,
    DueDelivery,
    FailureStreak,
)
from services.timeline.domain.ports import ClaimedWebhook
from services.timeline.domain.webhooks import Webhook, WebhookSecret

MOST_PENDING: Final = 100_000
"""The maximum number of pending deliveries per webhook. Further events wait in the timeline."""
_CHAIN_LENGTH: Final = 5
_DEAD_WORKERS: Final = "DELETE FROM webhook_workers WHERE lease_expires_at < now() - interval '1 hour'"
_RENEW: Final = """
INSERT INTO webhook_workers (id, lease_expires_at, presence) VALUES (%s, now() + make_interval(secs => %s), %s)
ON CONFLICT (id) DO UPDATE SET lease_expires_at = excluded.lease_expires_at, presence = excluded.presence
"""
_PRESENCES: Final = "SELECT presence FROM webhook_workers WHERE presence IS NOT NULL AND id <> %s"
# Workers with a valid lease, except those whose process has ended.
_ALIVE: Final = """
(SELECT id FROM webhook_workers WHERE lease_expires_at > now() AND (presence = ANY(%(gone)s)) IS NOT TRUE)
"""
# Deliveries waiting for another attempt have the latest due times, so few rows are read.
_SEVERAL_FAIL: Final = """
((SELECT count(*) FROM (
    SELECT FROM webhook_deliveries d
    WHERE d.webhook_id = {webhook}.id AND d.status = 'pending' AND d.next_attempt_at IS NOT NULL AND d.attempts > 0
    ORDER BY d.next_attempt_at DESC LIMIT 2) AS f) > 1)
"""
# The same rule as in `ClaimedWebhook.is_resting`.
_RESTED: Final = f"""
(w.failing_since IS NULL OR %(now)s >= w.last_failed_at + least(
    (w.last_failed_at - w.failing_since) / {REST_DIVISOR}, interval '{LONGEST_REST.total_seconds()} seconds')
  OR NOT {_SEVERAL_FAIL.format(webhook="w")})
"""
# Matches the first attempt of a test or redelivery. The time limit avoids reading everything that is due, and is longer
# than such an attempt can wait for others.
_REQUESTED: Final = """
(d.chain = d.id::text AND d.attempts = 0 AND d.next_attempt_at > {last_failed_at} - interval '5 minutes')
"""
# Every company's n-th webhook with work comes before any company's (n+1)-th.
_CLAIM: Final = f"""
WITH ready AS (
    SELECT w.id, row_number() OVER (PARTITION BY w.company_id ORDER BY w.id) AS turn
    FROM webhooks w LEFT JOIN timeline_counters c ON c.company_id = w.company_id::text
    WHERE w.status = 'enabled' AND w.deleted_at IS NULL
      AND ({_RESTED} OR EXISTS (
            SELECT FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending'
              AND d.next_attempt_at <= %(now)s AND {_REQUESTED.format(last_failed_at="w.last_failed_at")}))
      AND (w.worker_id IS NULL OR w.worker_id NOT IN {_ALIVE})
      AND ((w.cursor < c.position AND w.pending < {MOST_PENDING}) OR (w.pending > 0 AND EXISTS (
            SELECT FROM webhook_deliveries d WHERE d.webhook_id = w.id AND d.status = 'pending'
              AND d.next_attempt_at <= %(now)s)))
    ORDER BY turn, w.id LIMIT %(limit)s
), free AS (
    SELECT w.id FROM webhooks w JOIN ready USING (id)
    WHERE w.worker_id IS NULL OR w.worker_id NOT IN {_ALIVE}
    FOR NO KEY UPDATE OF w SKIP LOCKED
)
UPDATE webhooks w SET worker_id = %(worker)s FROM free WHERE w.id = free.id RETURNING w.id::text
"""
_RELEASE: Final = "UPDATE webhooks SET worker_id = NULL WHERE worker_id = %s AND id = ANY(%s::uuid[])"
_RELEASE_ALL: Final = "UPDATE webhooks SET worker_id = NULL WHERE worker_id = %s"
_END: Final = "DELETE FROM webhook_workers WHERE id = %s"
_CLAIMED: Final = f"""
SELECT cursor, pending < {MOST_PENDING} AS has_room, last_failed_at,
    failing_since IS NOT NULL AND {_SEVERAL_FAIL.format(webhook="k")} AS several_fail, {COLUMNS} FROM webhooks k
WHERE id = %s AND worker_id = %s AND status = 'enabled' AND deleted_at IS NULL
"""
_SECRETS: Final = """
SELECT id::text, webhook_id::text, ciphertext, created_at, expires_at FROM webhook_secrets
WHERE webhook_id = %s AND (expires_at IS NULL OR expires_at > %s) ORDER BY created_at DESC, id DESC
"""
_MOVE_CURSOR: Final = """
UPDATE webhooks SET cursor = %s, pending = pending + %s
WHERE id = %s AND worker_id = %s AND cursor = %s AND deleted_at IS NULL
"""
# A chain's first delivery is due, unless the chain already has a pending one.
_PICK_UP: Final = """
INSERT INTO webhook_deliveries
    (id, webhook_id, event_id, type, chain, position, status, attempts, next_attempt_at, created_at)
SELECT n.id, %(webhook)s, n.event_id, n.type, n.chain, n.position, 'pending', 0,
    CASE WHEN row_number() OVER (PARTITION BY n.chain ORDER BY n.position) = 1 AND NOT EXISTS (
        SELECT FROM webhook_deliveries d
        WHERE d.webhook_id = %(webhook)s AND d.chain = n.chain AND d.status = 'pending')
    THEN n.created_at END, n.created_at
FROM unnest(%(ids)s::uuid[], %(events)s::text[], %(types)s::text[], %(chains)s::text[], %(positions)s::bigint[],
            %(times)s::timestamptz[]) AS n(id, event_id, type, chain, position, created_at)
"""
_EVENT_COLUMNS: Final = (
    "company_id", "source", "subject", "sequence", "time", "correlation_id", "causation_id", "session_id", "turn_id",
    "data",
)  # fmt: skip
_DUE_BY_ORDER: Final = f"""
WITH heads AS (
    SELECT chain FROM webhook_deliveries d
    WHERE webhook_id = %(webhook)s AND status = 'pending' AND next_attempt_at <= %(now)s
      AND chain <> ALL(%(without)s::text[]) AND {{also}}
    ORDER BY {{order}} LIMIT %(chains)s
)
SELECT d.id::text, d.event_id, d.type, d.chain, d.attempts, d.position, d.event, d.created_at,
    {", ".join(f"e.{name}" for name in _EVENT_COLUMNS)}
FROM heads h CROSS JOIN LATERAL (
    SELECT * FROM webhook_deliveries WHERE webhook_id = %(webhook)s AND chain = h.chain AND status = 'pending'
    ORDER BY position LIMIT {_CHAIN_LENGTH}
) d LEFT JOIN timeline_events e ON e.company_id = %(company)s AND e.position = d.position AND d.event IS NULL
ORDER BY d.chain, d.position
"""
_DUE: Final = _DUE_BY_ORDER.format(order="next_attempt_at, position", also="true")
_DUE_OF_FAILING: Final = _DUE_BY_ORDER.format(order="next_attempt_at DESC, position DESC", also="true")
_DUE_OF_RESTING: Final = _DUE_BY_ORDER.format(
    order="next_attempt_at DESC, position DESC",
    also=_REQUESTED.format(last_failed_at="%(last_failed_at)s::timestamptz"),
)
_LOCK: Final = """
SELECT failing_since, last_failed_at, status FROM webhooks
WHERE id = %s AND worker_id = %s AND deleted_at IS NULL FOR NO KEY UPDATE
"""
# The attempt number guards the update, so that it doesn't overwrite what another worker has recorded.
_RECORD: Final = """
UPDATE webhook_deliveries d SET status = o.status, attempts = o.attempts, next_attempt_at = o.next_attempt_at,
    last_status = o.last_status, last_response = o.last_response
FROM unnest(%(ids)s::uuid[], %(statuses)s::text[], %(attempts)s::smallint[], %(retries)s::timestamptz[],
            %(codes)s::smallint[], %(texts)s::text[])
    AS o(id, status, attempts, next_attempt_at, last_status, last_response)
WHERE d.id = o.id AND d.status = 'pending' AND d.attempts = o.attempts - 1
RETURNING d.status
"""
_STATE: Final = """
UPDATE webhooks SET pending = pending - %(settled)s, failing_since = %(since)s, last_failed_at = %(last)s,
    status = CASE WHEN %(reason)s::text IS NULL THEN status ELSE 'disabled' END,
    disabled_reason = coalesce(%(reason)s, disabled_reason),
    updated_at = CASE WHEN %(reason)s::text IS NULL THEN updated_at ELSE %(now)s END
WHERE id = %(id)s
"""


class PostgresWebhookQueue:
    """Implements WebhookQueue. A worker counts as dead if its lease has expired or its process has ended."""

    def __init__(self, database: Database, outbox: Outbox, presence: Presence) -> None:
        self._database = database
        self._outbox = outbox
        self._presence = presence
        self._others: list[int] = []

    async def renew(self, worker_id: str, lease_seconds: float) -> None:
        await self._database.execute(_RENEW, (worker_id, lease_seconds, self._presence.announced))
        self._others = [number for (number,) in await self._database.execute(_PRESENCES, (worker_id,))]

    async def claim(self, worker_id: str, *, now: datetime, limit: int) -> Sequence[str]:
        gone = list(self._presence.gone(self._others))
        values = {"worker": worker_id, "now": now, "limit": limit, "gone": gone}
        return [webhook_id for (webhook_id,) in await self._database.execute(_CLAIM, values)]

    async def release(self, worker_id: str, webhook_ids: Collection[str]) -> None:
        await self._database.execute(_RELEASE, (worker_id, list(webhook_ids)))

    async def end(self, worker_id: str) -> None:
        async with self._database.transaction() as connection:
            await connection.execute(_RELEASE_ALL, (worker_id,))
            await connection.execute(_END, (worker_id,))
            await connection.execute(_DEAD_WORKERS)

    async def claimed(self, worker_id: str, webhook_id: str, *, now: datetime) -> ClaimedWebhook | None:
        async with self._database.connection() as connection:
            rows = await fetch_records(connection, _CLAIMED, (webhook_id, worker_id))
            if not rows:
                return None
            secrets = await fetch_records(connection, _SECRETS, (webhook_id, now))
        row = rows[0]
        state = {name: row.pop(name) for name in ("cursor", "has_room", "several_fail")}
        streak = FailureStreak(row["failing_since"], row.pop("last_failed_at"))
        signing = [WebhookSecret(**secret) for secret in secrets]
        return ClaimedWebhook(webhook=webhook_of(row), secrets=signing, streak=streak, **state)

    async def pick_up(self, worker_id: str, claimed: ClaimedWebhook, found: Sequence[Delivery], *, cursor: int) -> bool:
        webhook_id = claimed.webhook.id
        async with self._database.transaction() as connection:
            moved = await connection.execute(_MOVE_CURSOR, (cursor, len(found), webhook_id, worker_id, claimed.cursor))
            if moved.rowcount and found:
                values = {
                    "webhook": webhook_id,
                    "ids": [each.id for each in found],
                    "events": [each.event_id for each in found],
                    "types": [each.type for each in found],
                    "chains": [each.chain for each in found],
                    "positions": [each.position for each in found],
                    "times": [each.created_at for each in found],
                }
                await connection.execute(_PICK_UP, values)
            return bool(moved.rowcount)

    async def due(
        self, claimed: ClaimedWebhook, *, now: datetime, without: Collection[str], chains: int
    ) -> Sequence[Sequence[DueDelivery]]:
        webhook = claimed.webhook
        values = {
            "webhook": webhook.id,
            "company": webhook.company_id,
            "now": now,
            "without": list(without),
            "chains": chains,
            "last_failed_at": claimed.streak.last,
        }
        found: dict[str, list[DueDelivery]] = {}
        statement = _DUE_OF_FAILING if claimed.is_failing else _DUE
        if claimed.is_resting(now):
            statement = _DUE_OF_RESTING
        for row in await self._database.records(statement, values):
            delivery = _due(row)
            found.setdefault(delivery.chain, []).append(delivery)
        return list(found.values())

    async def record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], *, now: datetime
    ) -> bool:
        # Retries through an outage, because an unrecorded delivery would be sent again.
        return await retry_until_available(partial(self._record, worker_id, webhook, outcomes, now))

    async def _record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], now: datetime
    ) -> bool:
        context = MessageContext(webhook.company_id, new_id())
        async with self._outbox.transaction(context) as transaction:
            connection = transaction.connection
            row = await (await connection.execute(_LOCK, (webhook.id, worker_id))).fetchone()
            if row is None:
                return False
            recorded = await (await connection.execute(_RECORD, _columns(outcomes))).fetchall()
            chains = sorted({each.chain for each in outcomes if each.settled})
            if chains:
                await connection.execute(RESUME_CHAINS, {"webhook": webhook.id, "chains": chains, "now": now})
            settled = sum(status != DeliveryStatus.PENDING for (status,) in recorded)
            since, last, status = row
            streak = FailureStreak(since, last).after(outcomes, now)
            reason = streak.verdict(outcomes, now) if status == "enabled" else None
            await self._keep_state(transaction, webhook, streak, reason, settled=settled, now=now)
        return True

    async def _keep_state(
        self,
        transaction: Transaction,
        webhook: Webhook,
        streak: FailureStreak,
        reason: DisabledReason | None,
        *,
        settled: int,
        now: datetime,
    ) -> None:
        values = {
            "id": webhook.id, "settled": settled, "since": streak.since, "last": streak.last, "reason": reason,
            "now": now,
        }  # fmt: skip
        await transaction.connection.execute(_STATE, values)
        if reason is not None:
            transaction.emit(webhook.disabled_because(reason), subject=webhook.id, owner_id=webhook.user_id)


def _columns(outcomes: Sequence[AttemptOutcome]) -> dict[str, list[Any]]:
    return {
        "ids": [each.delivery_id for each in outcomes],
        "statuses": [each.status.value for each in outcomes],
        "attempts": [each.attempts for each in outcomes],
        "retries": [each.next_attempt_at for each in outcomes],
        "codes": [each.answer.status for each in outcomes],
        # Text in PostgreSQL can't contain NUL.
        "texts": [each.answer.text.replace("\0", "") for each in outcomes],
    }


def _due(row: dict[str, Any]) -> DueDelivery:
    stored = {name: row[name] for name in _EVENT_COLUMNS}
    event, time = row["event"], format_time(row["created_at"])
    if stored["data"] is not None:
        time = stored["time"]
        event = RecordedEvent(**stored, id=row["event_id"], type=row["type"], position=row["position"]).to_json()
    return DueDelivery(
        id=row["id"],
        event_id=row["event_id"],
        type=row["type"],
        chain=row["chain"],
        attempts=row["attempts"],
        time=time,
        event=event,
    )
