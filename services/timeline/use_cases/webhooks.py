"""Manages webhooks and their deliveries. Other users' webhooks require a ``company:…`` scope."""

import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import Conflict, InvalidRequest, PermissionDenied, invalid_field
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import CommandContext, Envelope, Event
from libs.contracts.pages import Page
from libs.contracts.resources.keys import ApiKeyCreated, ApiKeyRevoked
from libs.contracts.resources.webhooks import (
    TEST_EVENT,
    CreateWebhook,
    DeleteWebhook,
    Redeliver,
    RotateWebhookSecret,
    SealedSecret,
    SendTestEvent,
    UpdateWebhook,
    WebhookCreated,
    WebhookDeleted,
    WebhookDeliveryRequested,
    WebhookStatus,
    WebhookUpdated,
)
from libs.contracts.timestamps import format_time, parse_time
from libs.eventing import Transaction
from libs.outbound import AddressRefused, UnusableUrl
from services.timeline.domain.deliveries import Delivery, test_event
from services.timeline.domain.ports import WebhookClient, WebhookReader, WebhookWriter
from services.timeline.domain.webhooks import (
    MOST_SECRETS,
    MOST_WEBHOOKS,
    DeliveryNotFound,
    Webhook,
    WebhookNotFound,
    WebhookSecret,
    WriterRevoked,
)

_URL_FORM_HINT: Final = "use a URL such as https://example.com/hook"
_REFUSED_URL_HINT: Final = "use a public http(s) address, or ask an operator to allow this one in AES_OUTBOUND_NETWORKS"


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Reads and changes webhooks."""

    reader: WebhookReader
    writers: Callable[[Transaction], WebhookWriter]
    client: WebhookClient
    now: Callable[[], datetime]

    async def page(self, reader: Identity, **page: Any) -> Page[Webhook]:
        return await self.reader.webhooks(reader, **page)

    async def get(self, reader: Identity, webhook_id: str) -> Webhook:
        webhook = await self.reader.webhook(reader.company_id, webhook_id) if is_id(webhook_id) else None
        if webhook is None or not reader.may_read_of(webhook.user_id):
            raise WebhookNotFound
        return webhook

    async def deliveries(self, reader: Identity, webhook_id: str, **page: Any) -> Page[Delivery]:
        return await self.reader.deliveries((await self.get(reader, webhook_id)).id, **page)

    async def delivery(self, reader: Identity, webhook_id: str, delivery_id: str) -> Delivery:
        webhook = await self.get(reader, webhook_id)
        found = await self.reader.delivery(webhook.id, delivery_id) if is_id(delivery_id) else None
        if found is None:
            raise DeliveryNotFound
        return found

    async def check_new(self, command: CreateWebhook, _: CommandContext) -> None:
        """Checks the URL of a new webhook before the transaction. Raises ``ValidationFailed``."""
        await self._check_url(command.url)

    async def create(
        self, transaction: Transaction, command: CreateWebhook, context: CommandContext, _checked: None
    ) -> None:
        """Creates a webhook. Raises ``Conflict`` if there are too many, or ``WriterRevoked`` for a revoked key."""
        writer, identity, now = self.writers(transaction), context.identity, self.now()
        if await writer.is_revoked(identity.key_id):
            raise WriterRevoked
        disabled = command.status is WebhookStatus.DISABLED
        webhook = Webhook(
            id=context.command_id,
            company_id=identity.company_id,
            user_id=identity.user_id,
            key_id=identity.key_id,
            sees_company=identity.reads_company,
            url=command.url,
            event_types=command.event_types,
            description=command.description,
            status=command.status,
            disabled_reason=DisabledReason.REQUESTED if disabled else None,
            created_at=now,
            updated_at=now,
        )
        secret = _stored(command.secret, webhook.id, now)
        await writer.add(webhook, secret, most=MOST_WEBHOOKS)
        created = WebhookCreated(
            webhook_id=webhook.id,
            user_id=webhook.user_id,
            event_types=list(webhook.event_types),
            secret_id=secret.id,
            created_at=format_time(now),
        )
        _emit(transaction, webhook, created)

    async def check_change(self, command: UpdateWebhook, context: CommandContext) -> None:
        """Checks a change before the transaction. Raises ``ValidationFailed``, or any error that ``change`` raises."""
        webhook = await self.reader.webhook(context.identity.company_id, command.webhook_id)
        url = _changeable(context.identity, webhook).url
        if command.url is not None and command.url != url:
            await self._check_url(command.url)

    async def change(
        self, transaction: Transaction, command: UpdateWebhook, context: CommandContext, _checked: None
    ) -> None:
        """Changes a webhook. Enabling it makes it depend on the caller's key."""
        writer, identity = self.writers(transaction), context.identity
        is_revoked = await writer.is_revoked(identity.key_id)
        before = _changeable(identity, await writer.lock(identity.company_id, command.webhook_id))
        after = self._changed(command, identity, before)
        if after.key_id != before.key_id and is_revoked:
            raise WriterRevoked
        await self._save(transaction, before, after)

    async def delete(self, transaction: Transaction, command: DeleteWebhook, context: CommandContext) -> None:
        writer, identity = self.writers(transaction), context.identity
        webhook = _own(identity, await writer.lock(identity.company_id, command.webhook_id))
        await writer.delete(webhook)
        _emit(transaction, webhook, WebhookDeleted(webhook_id=webhook.id, user_id=webhook.user_id))

    async def rotate_secret(
        self, transaction: Transaction, command: RotateWebhookSecret, context: CommandContext
    ) -> None:
        """Adds a secret. Raises ``Conflict`` if the webhook has too many valid secrets."""
        writer, identity, now = self.writers(transaction), context.identity, self.now()
        webhook = _changeable(identity, await writer.lock(identity.company_id, command.webhook_id))
        secret, ends = _stored(command.secret, webhook.id, now), now + timedelta(seconds=command.grace_seconds)
        if not await writer.replace_secret(secret, old_expires_at=ends, most=MOST_SECRETS):
            raise Conflict(f"The webhook already has {MOST_SECRETS} valid secrets. Wait until one expires.")
        _emit_updated(transaction, webhook, secret.id)

    async def send_test(self, transaction: Transaction, command: SendTestEvent, context: CommandContext) -> None:
        """Sends a ``webhook.test`` event once, whatever the webhook's event types are."""
        writer, identity, now = self.writers(transaction), context.identity, self.now()
        webhook = _enabled(identity, await writer.lock(identity.company_id, command.webhook_id))
        event_id, correlation_id = new_id(), context.message.correlation_id
        event = test_event(
            event_id=event_id, webhook_id=webhook.id, correlation_id=correlation_id, time=format_time(now)
        )
        delivery = Delivery(
            id=context.command_id,
            webhook_id=webhook.id,
            event_id=event_id,
            type=TEST_EVENT,
            chain=context.command_id,
            position=0,
            next_attempt_at=now,
            created_at=now,
        )
        await writer.add_test(delivery, event)
        _emit_requested(transaction, webhook, delivery, now)

    async def deliver_again(self, transaction: Transaction, command: Redeliver, context: CommandContext) -> None:
        """Sends a pending or finished delivery again, without waiting for other events of its subject."""
        writer, identity, now = self.writers(transaction), context.identity, self.now()
        webhook = _enabled(identity, await writer.lock(identity.company_id, command.webhook_id))
        delivery = await writer.deliver_again(webhook.id, command.delivery_id, now=now)
        if delivery is None:
            raise DeliveryNotFound
        _emit_requested(transaction, webhook, delivery, now)

    async def key_revoked(self, transaction: Transaction, event: ApiKeyRevoked, envelope: Envelope) -> None:
        """Disables the webhooks that depend on the key."""
        writer = self.writers(transaction)
        await writer.revoke(event.key_id, parse_time(envelope.time))
        for webhook in await writer.lock_of_key(event.key_id):
            if webhook.status is WebhookStatus.ENABLED:
                await self._disable_for_key(transaction, webhook, webhook)

    async def key_created(self, transaction: Transaction, event: ApiKeyCreated, envelope: Envelope) -> None:
        """Makes the webhooks of a replaced key depend on the key's successor.

        The event that revokes either key may already have been handled.
        """
        if event.replaces is None:
            return
        writer = self.writers(transaction)
        is_revoked, replaced_at = await writer.is_revoked(event.key_id), parse_time(envelope.time)
        for webhook in await writer.lock_of_key(event.replaces):
            if webhook.created_at > replaced_at:
                continue
            moved = replace(webhook, key_id=event.key_id)
            if is_revoked and webhook.status is WebhookStatus.ENABLED:
                await self._disable_for_key(transaction, webhook, moved)
            elif not is_revoked and webhook.disabled_reason is DisabledReason.KEY_REVOKED:
                await self._save(transaction, webhook, self._in_state(moved, WebhookStatus.ENABLED, None))
            else:
                await writer.save(webhook, moved)

    async def _disable_for_key(self, transaction: Transaction, before: Webhook, after: Webhook) -> None:
        reason = DisabledReason.KEY_REVOKED
        disabled = self._in_state(after, WebhookStatus.DISABLED, reason)
        await self.writers(transaction).save(before, disabled)
        _emit(transaction, after, after.disabled_because(reason))

    async def _save(self, transaction: Transaction, before: Webhook, after: Webhook) -> None:
        await self.writers(transaction).save(before, after)
        _emit_updated(transaction, after)
        if before.status is WebhookStatus.ENABLED and after.status is WebhookStatus.DISABLED:
            _emit(transaction, after, after.disabled_because(DisabledReason.REQUESTED))

    def _in_state(self, webhook: Webhook, status: WebhookStatus, reason: DisabledReason | None) -> Webhook:
        return replace(webhook, status=status, disabled_reason=reason, updated_at=self.now())

    def _changed(self, change: UpdateWebhook, writer: Identity, webhook: Webhook) -> Webhook:
        status = change.status or webhook.status
        reason = None
        if status is WebhookStatus.DISABLED:
            reason = webhook.disabled_reason or DisabledReason.REQUESTED
        enabled_again = webhook.status is WebhookStatus.DISABLED and status is WebhookStatus.ENABLED
        return replace(
            webhook,
            url=change.url or webhook.url,
            event_types=change.event_types or webhook.event_types,
            description=webhook.description if change.description is None else change.description,
            status=status,
            disabled_reason=reason,
            failing_since=None if status is WebhookStatus.ENABLED else webhook.failing_since,
            key_id=writer.key_id if enabled_again else webhook.key_id,
            updated_at=self.now(),
        )

    async def _check_url(self, url: str) -> None:
        try:
            await self.client.check(url)
        except (UnusableUrl, AddressRefused) as problem:
            hint = _REFUSED_URL_HINT if isinstance(problem, AddressRefused) else _URL_FORM_HINT
            raise invalid_field(["url"], str(problem), kind="url_refused", hint=hint) from None


def _emit(transaction: Transaction, webhook: Webhook, event: Event) -> None:
    transaction.emit(event, subject=webhook.id, owner_id=webhook.user_id)


def _emit_updated(transaction: Transaction, webhook: Webhook, secret_id: str | None = None) -> None:
    updated = WebhookUpdated(
        webhook_id=webhook.id,
        user_id=webhook.user_id,
        event_types=list(webhook.event_types),
        status=webhook.status,
        secret_id=secret_id,
    )
    _emit(transaction, webhook, updated)


def _emit_requested(transaction: Transaction, webhook: Webhook, delivery: Delivery, now: datetime) -> None:
    requested = WebhookDeliveryRequested(
        webhook_id=webhook.id,
        user_id=webhook.user_id,
        delivery_id=delivery.id,
        event_id=delivery.event_id,
        due_at=format_time(now),
    )
    _emit(transaction, webhook, requested)


def _stored(given: SealedSecret, webhook_id: str, now: datetime) -> WebhookSecret:
    try:
        ciphertext = base64.b64decode(given.ciphertext, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("The ciphertext isn't valid Base64.") from None
    return WebhookSecret(id=given.id, webhook_id=webhook_id, ciphertext=ciphertext, created_at=now)


def _own(writer: Identity, webhook: Webhook | None) -> Webhook:
    """Returns the webhook. Raises ``NotFound`` unless the caller owns it or may change the company's data."""
    if webhook is None or not writer.may_write_of(webhook.user_id):
        raise WebhookNotFound
    return webhook


def _changeable(writer: Identity, webhook: Webhook | None) -> Webhook:
    """Returns the webhook. Raises ``PermissionDenied`` if it receives events that the caller can't see."""
    own = _own(writer, webhook)
    if not own.may_be_changed_by(writer):
        raise PermissionDenied(
            "This webhook receives the whole company's events. Changing it requires the scope company:read."
        )
    return own


def _enabled(writer: Identity, webhook: Webhook | None) -> Webhook:
    own = _own(writer, webhook)
    if own.status is not WebhookStatus.ENABLED:
        raise Conflict("The webhook is disabled. Enable it first.")
    return own
