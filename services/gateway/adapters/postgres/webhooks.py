"""Webhooks in PostgreSQL, as their makers see them."""

from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from libs.contracts.api.pages import Page
from libs.contracts.errors import NotFound
from libs.contracts.events.gateway import WebhookCreated, WebhookDeleted, WebhookDisabled, WebhookUpdated
from libs.contracts.identity import Identity
from libs.eventing import MessageContext, Outbox, Transaction
from libs.persistence import Connection, Database, Order, fetch_page, fetch_records, fetch_value
from services.gateway.adapters.postgres.idempotency import claim
from services.gateway.adapters.postgres.pages import visible_page
from services.gateway.domain.idempotency import Write
from services.gateway.domain.webhook_deliveries import Delivery, DeliveryStatus
from services.gateway.domain.webhooks import (
    DisabledReason,
    TooManyWebhooks,
    Webhook,
    WebhookSecret,
    WebhookStatus,
    WriterRevoked,
)

COLUMNS: Final = """
k.id::text, k.company_id::text, k.user_id::text, k.key_id::text, k.sees_company, k.url, k.event_types, k.description,
k.status, k.disabled_reason, k.created_at, k.updated_at, k.failing_since
"""
_LIVE: Final = "(SELECT * FROM webhooks WHERE deleted_at IS NULL) AS k"
_ONE: Final = f"SELECT {COLUMNS} FROM webhooks k WHERE company_id = %s AND id = %s AND deleted_at IS NULL"
_ONE_LOCKED: Final = f"{_ONE} FOR NO KEY UPDATE"
# Whoever revokes a key changes its row first and the webhooks of it afterwards.
_LOCK_KEY: Final = "SELECT id FROM api_keys WHERE id = %s AND revoked_at IS NULL FOR SHARE"
_LOCK_COMPANY: Final = "SELECT id FROM companies WHERE id = %s FOR NO KEY UPDATE"
_COUNT: Final = "SELECT count(*) FROM webhooks WHERE company_id = %s AND deleted_at IS NULL"
_INSERT: Final = """
INSERT INTO webhooks (id, company_id, user_id, key_id, sees_company, url, event_types, description, status,
                      disabled_reason, created_at, updated_at, cursor)
VALUES (%(id)s, %(company_id)s::uuid, %(user_id)s, %(key_id)s, %(sees_company)s, %(url)s, %(event_types)s,
        %(description)s, %(status)s, %(disabled_reason)s, %(created_at)s, %(updated_at)s,
        coalesce((SELECT position FROM timeline_counters WHERE company_id = %(company_id)s::uuid::text), 0))
"""
_LOCK: Final = "SELECT status FROM webhooks WHERE id = %s AND deleted_at IS NULL FOR NO KEY UPDATE"
_CHANGE: Final = """
UPDATE webhooks SET url = %(url)s, event_types = %(event_types)s, description = %(description)s, status = %(status)s,
    disabled_reason = %(disabled_reason)s, key_id = %(key_id)s, updated_at = %(updated_at)s,
    failing_since = CASE WHEN %(enabled)s THEN NULL ELSE failing_since END,
    last_failed_at = CASE WHEN %(enabled)s THEN NULL ELSE last_failed_at END
WHERE id = %(id)s
"""
_ALL_CHAINS_DUE: Final = """
UPDATE webhook_deliveries SET next_attempt_at = %(now)s WHERE id IN (
    SELECT DISTINCT ON (chain) id FROM webhook_deliveries WHERE webhook_id = %(id)s AND status = 'pending'
    ORDER BY chain, position)
"""
_DELETE: Final = "UPDATE webhooks SET deleted_at = now(), worker_id = NULL WHERE id = %s AND deleted_at IS NULL"
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
_AGAIN: Final = """
WITH before AS (SELECT id, status, chain FROM webhook_deliveries WHERE id = %(id)s FOR UPDATE)
UPDATE webhook_deliveries d SET status = 'pending', attempts = 0, next_attempt_at = %(now)s, chain = d.id::text
FROM before WHERE d.id = before.id RETURNING before.status, before.chain
"""
GO_ON: Final = """
UPDATE webhook_deliveries SET next_attempt_at = %(now)s WHERE next_attempt_at IS NULL AND id IN (
    SELECT DISTINCT ON (chain) id FROM webhook_deliveries
    WHERE webhook_id = %(webhook)s AND chain = ANY(%(chains)s) AND status = 'pending' ORDER BY chain, position)
"""
"""Makes the next delivery of chains due."""
_ONE_MORE: Final = "UPDATE webhooks SET pending = pending + 1 WHERE id = %s"
_OF_KEY: Final = f"""
UPDATE webhooks k SET status = 'disabled', disabled_reason = %s, updated_at = %s
WHERE key_id = %s AND status = 'enabled' AND deleted_at IS NULL RETURNING {COLUMNS}
"""
_MOVE_TO_KEY: Final = "UPDATE webhooks SET key_id = %s WHERE key_id = %s AND deleted_at IS NULL"


class PostgresWebhooks:
    def __init__(self, database: Database, outbox: Outbox) -> None:
        self._database = database
        self._outbox = outbox

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None:
        rows = await self._database.records(_ONE, (company_id, webhook_id))
        return webhook_of(rows[0]) if rows else None

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        page = await visible_page(self._database, _LIVE, COLUMNS, reader, limit=limit, offset=offset, cursor=cursor)
        return page.map(webhook_of)

    async def add(self, webhook: Webhook, secret: WebhookSecret, write: Write, *, most: int) -> None:
        async with self._outbox.transaction(_context(webhook, write)) as transaction:
            connection = transaction.connection
            await claim(connection, write, webhook.id)
            if await fetch_value(connection, _LOCK_KEY, (webhook.key_id,)) is None:
                raise WriterRevoked
            await connection.execute(_LOCK_COMPANY, (webhook.company_id,))
            if await fetch_value(connection, _COUNT, (webhook.company_id,)) >= most:
                raise TooManyWebhooks
            await connection.execute(_INSERT, _values(webhook))
            await connection.execute(_ADD_SIGNER, asdict(secret))
            created = WebhookCreated(
                webhook_id=webhook.id, user_id=webhook.user_id, event_types=list(webhook.event_types)
            )
            transaction.emit(created, subject=webhook.id, owner_id=webhook.user_id)

    async def change(self, webhook: Webhook, changed: Callable[[Webhook], Webhook], write: Write) -> Webhook | None:
        async with self._outbox.transaction(_context(webhook, write)) as transaction:
            connection = transaction.connection
            await claim(connection, write, webhook.id)
            writer_is_valid = await fetch_value(connection, _LOCK_KEY, (write.identity.key_id,)) is not None
            rows = await fetch_records(connection, _ONE_LOCKED, (webhook.company_id, webhook.id))
            if not rows:
                return None
            before = webhook_of(rows[0])
            after = changed(before)
            if after.key_id != before.key_id and not writer_is_valid:
                raise WriterRevoked
            await _keep_change(transaction, before, after)
        return after

    async def delete(self, webhook: Webhook, write: Write) -> None:
        async with self._outbox.transaction(_context(webhook, write)) as transaction:
            if (await transaction.connection.execute(_DELETE, (webhook.id,))).rowcount:
                deleted = WebhookDeleted(webhook_id=webhook.id, user_id=webhook.user_id)
                transaction.emit(deleted, subject=webhook.id, owner_id=webhook.user_id)

    async def replace_secret(
        self, webhook: Webhook, secret: WebhookSecret, write: Write, *, old_expires_at: datetime, most: int
    ) -> bool:
        try:
            async with self._outbox.transaction(_context(webhook, write)) as transaction:
                connection = transaction.connection
                await claim(connection, write, secret.id)
                await _lock(connection, webhook.id)
                await connection.execute(_FORGET_SECRETS, (webhook.id, secret.created_at))
                await connection.execute(_RETIRE, (old_expires_at, webhook.id))
                if await fetch_value(connection, _COUNT_SECRETS, (webhook.id,)) >= most:
                    raise _TooManySecrets
                await connection.execute(_ADD_SIGNER, asdict(secret))
                emit_updated(transaction, webhook)
        except _TooManySecrets:
            return False
        return True

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

    async def add_test(self, delivery: Delivery, event: bytes, write: Write) -> None:
        async with self._database.transaction() as connection:
            await claim(connection, write, delivery.id)
            await _lock(connection, delivery.webhook_id)
            await connection.execute(_INSERT_DELIVERY, {**asdict(delivery), "event": event})
            await connection.execute(_ONE_MORE, (delivery.webhook_id,))

    async def deliver_again(self, delivery: Delivery, write: Write, *, now: datetime) -> None:
        async with self._database.transaction() as connection:
            await claim(connection, write, delivery.id)
            await _lock(connection, delivery.webhook_id)
            row = await (await connection.execute(_AGAIN, {"id": delivery.id, "now": now})).fetchone()
            if row is None:
                raise NotFound("There is no delivery with this id.")
            status, chain = row
            if status == DeliveryStatus.PENDING:
                left = {"webhook": delivery.webhook_id, "chains": [chain], "now": now}
                await connection.execute(GO_ON, left)
            else:
                await connection.execute(_ONE_MORE, (delivery.webhook_id,))


class _TooManySecrets(Exception):
    """Rolls the transaction back."""


async def _lock(connection: Connection, webhook_id: str) -> None:
    """Raises ``NotFound`` for a webhook that was deleted meanwhile."""
    if await fetch_value(connection, _LOCK, (webhook_id,)) is None:
        raise NotFound("There is no webhook with this id.")


async def _keep_change(transaction: Transaction, before: Webhook, after: Webhook) -> None:
    was_enabled, enabled = (each.status is WebhookStatus.ENABLED for each in (before, after))
    await transaction.connection.execute(_CHANGE, {**_values(after), "enabled": enabled})
    if enabled and not was_enabled:
        await transaction.connection.execute(_ALL_CHAINS_DUE, {"id": after.id, "now": after.updated_at})
    emit_updated(transaction, after)
    if was_enabled and not enabled:
        emit_disabled(transaction, after, DisabledReason.REQUESTED)


def emit_updated(transaction: Transaction, webhook: Webhook) -> None:
    updated = WebhookUpdated(
        webhook_id=webhook.id,
        user_id=webhook.user_id,
        event_types=list(webhook.event_types),
        status=webhook.status,
    )
    transaction.emit(updated, subject=webhook.id, owner_id=webhook.user_id)


def emit_disabled(transaction: Transaction, webhook: Webhook, reason: DisabledReason) -> None:
    disabled = WebhookDisabled(webhook_id=webhook.id, user_id=webhook.user_id, reason=reason)
    transaction.emit(disabled, subject=webhook.id, owner_id=webhook.user_id)


async def move_to_key(connection: Connection, old_id: str, new_id: str) -> None:
    """Webhooks of a key that is rotated stand on its successor."""
    await connection.execute(_MOVE_TO_KEY, (new_id, old_id))


async def disable_of_key(transaction: Transaction, key_id: str, at: datetime) -> None:
    """Ends deliveries to the webhooks that were made with a key which is revoked."""
    reason = DisabledReason.KEY_REVOKED
    for row in await fetch_records(transaction.connection, _OF_KEY, (reason, at, key_id)):
        emit_disabled(transaction, webhook_of(row), reason)


def _context(webhook: Webhook, write: Write) -> MessageContext:
    return MessageContext(webhook.company_id, write.correlation_id)


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
