"""Stores webhooks in PostgreSQL."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import Conflict
from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.contracts.resources.webhooks import WebhookStatus
from libs.eventing import Transaction
from libs.persistence import Database, Order, fetch_page, fetch_records, fetch_value
from services.timeline.domain.deliveries import Delivery, DeliveryStatus
from services.timeline.domain.webhooks import Webhook, WebhookSecret

COLUMNS: Final = """
k.id::text, k.company_id::text, k.user_id::text, k.key_id::text, k.sees_company, k.url, k.event_types, k.description,
k.status, k.disabled_reason, k.created_at, k.updated_at, k.failing_since
"""
_ONE: Final = f"SELECT {COLUMNS} FROM webhooks k WHERE company_id = %s AND id = %s AND deleted_at IS NULL"
_ONE_LOCKED: Final = f"{_ONE} FOR NO KEY UPDATE"
_OF_KEY_LOCKED: Final = f"""
SELECT {COLUMNS} FROM webhooks k WHERE key_id = %s AND deleted_at IS NULL ORDER BY id FOR NO KEY UPDATE
"""
_NEWEST_FIRST: Final = Order(("k.created_at", "k.id"), ("timestamptz", "uuid"))
# Locked by the creation of webhooks and the revocation of keys, so that the later one sees the earlier one.
_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtextextended('webhooks of ' || %s, 0))"
_IS_REVOKED: Final = "SELECT EXISTS (SELECT FROM revoked_keys WHERE id = %s)"
_REVOKE: Final = "INSERT INTO revoked_keys (id, revoked_at) VALUES (%s, %s) ON CONFLICT DO NOTHING"
_COUNT: Final = "SELECT count(*) FROM webhooks WHERE company_id = %s AND deleted_at IS NULL"
_INSERT: Final = """
INSERT INTO webhooks (id, company_id, user_id, key_id, sees_company, url, event_types, description, status,
                      disabled_reason, created_at, updated_at, cursor)
VALUES (%(id)s, %(company_id)s::uuid, %(user_id)s, %(key_id)s, %(sees_company)s, %(url)s, %(event_types)s,
        %(description)s, %(status)s, %(disabled_reason)s, %(created_at)s, %(updated_at)s,
        coalesce((SELECT position FROM timeline_counters WHERE company_id = %(company_id)s::uuid::text), 0))
"""
_CHANGE: Final = """
UPDATE webhooks SET url = %(url)s, event_types = %(event_types)s, description = %(description)s, status = %(status)s,
    disabled_reason = %(disabled_reason)s, key_id = %(key_id)s, updated_at = %(updated_at)s,
    failing_since = %(failing_since)s,
    last_failed_at = CASE WHEN %(failing_since)s::timestamptz IS NULL THEN NULL ELSE last_failed_at END
WHERE id = %(id)s
"""
_ALL_CHAINS_DUE: Final = """
UPDATE webhook_deliveries SET next_attempt_at = %(now)s WHERE id IN (
    SELECT DISTINCT ON (chain) id FROM webhook_deliveries WHERE webhook_id = %(id)s AND status = 'pending'
    ORDER BY chain, position)
"""
_DELETE: Final = "UPDATE webhooks SET deleted_at = now(), worker_id = NULL WHERE id = %s"
_ADD_SIGNER: Final = """
INSERT INTO webhook_secrets (id, webhook_id, ciphertext, created_at, expires_at)
VALUES (%(id)s, %(webhook_id)s, %(ciphertext)s, %(created_at)s, %(expires_at)s)
"""
_RETIRE: Final = "UPDATE webhook_secrets SET expires_at = %s WHERE webhook_id = %s AND expires_at IS NULL"
_FORGET_SECRETS: Final = "DELETE FROM webhook_secrets WHERE webhook_id = %s AND expires_at <= %s"
_COUNT_SECRETS: Final = "SELECT count(*) FROM webhook_secrets WHERE webhook_id = %s"
_DELIVERY_COLUMNS: Final = """
id::text, webhook_id::text, event_id, type, chain, position, status, attempts, next_attempt_at, last_status,
last_response, created_at
"""
_LAST_FIRST: Final = Order(("webhook_deliveries.created_at", "webhook_deliveries.id"), ("timestamptz", "uuid"))
_DELIVERY: Final = f"SELECT {_DELIVERY_COLUMNS} FROM webhook_deliveries WHERE webhook_id = %s AND id = %s"
_INSERT_DELIVERY: Final = """
INSERT INTO webhook_deliveries (id, webhook_id, event_id, type, chain, position, status, attempts, next_attempt_at,
                                created_at, event)
VALUES (%(id)s, %(webhook_id)s, %(event_id)s, %(type)s, %(chain)s, %(position)s, %(status)s, %(attempts)s,
        %(next_attempt_at)s, %(created_at)s, %(event)s)
"""
_DELIVERY_LOCKED: Final = f"{_DELIVERY} FOR UPDATE"
_REDELIVER: Final = """
UPDATE webhook_deliveries SET status = 'pending', attempts = 0, next_attempt_at = %s, chain = id::text WHERE id = %s
"""
RESUME_CHAINS: Final = """
UPDATE webhook_deliveries SET next_attempt_at = %(now)s WHERE next_attempt_at IS NULL AND id IN (
    SELECT DISTINCT ON (chain) id FROM webhook_deliveries
    WHERE webhook_id = %(webhook)s AND chain = ANY(%(chains)s) AND status = 'pending' ORDER BY chain, position)
"""
"""Makes the next delivery of each chain due."""
_COUNT_PENDING: Final = "UPDATE webhooks SET pending = pending + 1 WHERE id = %s"


class PostgresWebhookReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None:
        rows = await self._database.records(_ONE, (company_id, webhook_id))
        return webhook_of(rows[0]) if rows else None

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        visible = "FROM webhooks k WHERE company_id = %(company)s AND deleted_at IS NULL"
        if not reader.reads_company:
            visible += " AND user_id = %(user)s"
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, COLUMNS, visible, _NEWEST_FIRST, {"company": reader.company_id, "user": reader.user_id},
                limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(webhook_of)

    async def deliveries(
        self, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        async with self._database.connection() as connection:
            page = await fetch_page(
                connection, _DELIVERY_COLUMNS, "FROM webhook_deliveries WHERE webhook_id = %(webhook)s", _LAST_FIRST,
                {"webhook": webhook_id}, limit=limit, offset=offset, cursor=cursor,
            )  # fmt: skip
        return page.map(_delivery)

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None:
        rows = await self._database.records(_DELIVERY, (webhook_id, delivery_id))
        return _delivery(rows[0]) if rows else None


class PostgresWebhookWriter:
    def __init__(self, transaction: Transaction) -> None:
        self._connection = transaction.connection

    async def add(self, webhook: Webhook, secret: WebhookSecret, *, most: int) -> None:
        await self._connection.execute(_LOCK, (webhook.company_id,))
        if await fetch_value(self._connection, _COUNT, (webhook.company_id,)) >= most:
            raise Conflict(f"Your company already has {most} webhooks, which is the maximum. Delete one first.")
        await self._connection.execute(_INSERT, _values(webhook))
        await self._connection.execute(_ADD_SIGNER, asdict(secret))

    async def lock(self, company_id: str, webhook_id: str) -> Webhook | None:
        rows = await fetch_records(self._connection, _ONE_LOCKED, (company_id, webhook_id))
        return webhook_of(rows[0]) if rows else None

    async def lock_of_key(self, key_id: str) -> Sequence[Webhook]:
        return [webhook_of(row) for row in await fetch_records(self._connection, _OF_KEY_LOCKED, (key_id,))]

    async def save(self, before: Webhook, after: Webhook) -> None:
        await self._connection.execute(_CHANGE, _values(after))
        if (before.status, after.status) == (WebhookStatus.DISABLED, WebhookStatus.ENABLED):
            await self._connection.execute(_ALL_CHAINS_DUE, {"id": after.id, "now": after.updated_at})

    async def delete(self, webhook: Webhook) -> None:
        await self._connection.execute(_DELETE, (webhook.id,))

    async def replace_secret(self, secret: WebhookSecret, *, old_expires_at: datetime, most: int) -> bool:
        await self._connection.execute(_FORGET_SECRETS, (secret.webhook_id, secret.created_at))
        await self._connection.execute(_RETIRE, (old_expires_at, secret.webhook_id))
        if await fetch_value(self._connection, _COUNT_SECRETS, (secret.webhook_id,)) >= most:
            return False
        await self._connection.execute(_ADD_SIGNER, asdict(secret))
        return True

    async def add_test(self, delivery: Delivery, event: bytes) -> None:
        await self._connection.execute(_INSERT_DELIVERY, {**asdict(delivery), "event": event})
        await self._connection.execute(_COUNT_PENDING, (delivery.webhook_id,))

    async def deliver_again(self, webhook_id: str, delivery_id: str, *, now: datetime) -> Delivery | None:
        rows = await fetch_records(self._connection, _DELIVERY_LOCKED, (webhook_id, delivery_id))
        if not rows:
            return None
        before = _delivery(rows[0])
        await self._connection.execute(_REDELIVER, (now, delivery_id))
        if before.status is DeliveryStatus.PENDING:
            left = {"webhook": webhook_id, "chains": [before.chain], "now": now}
            await self._connection.execute(RESUME_CHAINS, left)
        else:
            await self._connection.execute(_COUNT_PENDING, (webhook_id,))
        return replace(before, status=DeliveryStatus.PENDING, attempts=0, next_attempt_at=now, chain=delivery_id)

    async def is_revoked(self, key_id: str) -> bool:
        await self._connection.execute(_LOCK, (key_id,))
        return bool(await fetch_value(self._connection, _IS_REVOKED, (key_id,)))

    async def revoke(self, key_id: str, at: datetime) -> None:
        await self._connection.execute(_LOCK, (key_id,))
        await self._connection.execute(_REVOKE, (key_id, at))


def _values(webhook: Webhook) -> dict[str, Any]:
    return {**asdict(webhook), "event_types": list(webhook.event_types)}


def webhook_of(row: dict[str, Any]) -> Webhook:
    reason = row["disabled_reason"]
    typed = {
        "event_types": tuple(row["event_types"]),
        "status": WebhookStatus(row["status"]),
        "disabled_reason": None if reason is None else DisabledReason(reason),
    }
    return Webhook(**{**row, **typed})


def _delivery(row: dict[str, Any]) -> Delivery:
    return Delivery(**{**row, "status": DeliveryStatus(row["status"])})
