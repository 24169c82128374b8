"""Webhooks and their deliveries; those of other users only with ``company:…`` scopes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from libs.contracts.api.pages import Page
from libs.contracts.errors import Conflict, ErrorDetail, NotFound, PermissionDenied, ValidationFailed
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import Identity
from libs.contracts.timestamps import format_time
from libs.secrets import SecretCipher
from services.gateway.domain.idempotency import KeyReused, Write
from services.gateway.domain.webhook_deliveries import Delivery, DeliveryStatus, test_event
from services.gateway.domain.webhook_ports import WebhookClient, WebhookStore
from services.gateway.domain.webhooks import (
    MOST_SECRETS,
    MOST_WEBHOOKS,
    TEST_EVENT,
    DisabledReason,
    TooManyWebhooks,
    Webhook,
    WebhookSecret,
    WebhookStatus,
    new_webhook_secret,
    secret_place,
)
from services.gateway.use_cases.secrets import SecretsUnavailable

_REFUSED_URL_HINT = "use a public http(s) address; networks of its own the operator names in AES_OUTBOUND_NETWORKS"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    url: str
    event_types: tuple[str, ...]
    description: str
    status: WebhookStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookChange:
    """None leaves a field as it is."""

    url: str | None = None
    event_types: tuple[str, ...] | None = None
    description: str | None = None
    status: WebhookStatus | None = None


@dataclass(frozen=True, slots=True)
class IssuedWebhook:
    """A webhook together with its newest secret, which is stored encrypted and not shown again."""

    webhook: Webhook
    secret: str


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Without a key for secrets, ``create`` and ``rotate_secret`` raise ``SecretsUnavailable``."""

    store: WebhookStore
    client: WebhookClient
    cipher: SecretCipher | None
    now: Callable[[], datetime]

    async def page(self, reader: Identity, **page: Any) -> Page[Webhook]:
        return await self.store.webhooks(reader, **page)

    async def create(self, write: Write, wanted: WebhookRequest) -> IssuedWebhook:
        """Raises ``ValidationFailed`` for a URL that is refused, and ``Conflict`` when the company has too many."""
        if self.cipher is None:
            raise SecretsUnavailable
        await self._check_url(wanted.url)
        identity, now = write.identity, self.now()
        disabled = wanted.status is WebhookStatus.DISABLED
        webhook = Webhook(
            id=new_id(),
            company_id=identity.company_id,
            user_id=identity.user_id,
            key_id=identity.key_id,
            sees_company=identity.reads_company,
            url=wanted.url,
            event_types=wanted.event_types,
            description=wanted.description,
            status=wanted.status,
            disabled_reason=DisabledReason.REQUESTED if disabled else None,
            created_at=now,
            updated_at=now,
        )
        text = new_webhook_secret()
        try:
            await self.store.add(webhook, _sealed(self.cipher, webhook.id, text, now), write, most=MOST_WEBHOOKS)
        except KeyReused as reuse:
            raise _made_before(reuse, write, f"the webhook {reuse.entity_id}") from None
        except TooManyWebhooks:
            raise Conflict(f"Your company has {MOST_WEBHOOKS} webhooks, which is as many as it may have.") from None
        return IssuedWebhook(webhook, text)

    async def get(self, reader: Identity, webhook_id: str) -> Webhook:
        webhook = await self.store.webhook(reader.company_id, webhook_id) if is_id(webhook_id) else None
        if webhook is None or not reader.may_read_of(webhook.user_id):
            raise NotFound("There is no webhook with this id.")
        return webhook

    async def change(self, write: Write, webhook_id: str, change: WebhookChange) -> Webhook:
        """A webhook is bound to the key that enables it again: the previous key may have been revoked."""
        webhook = await self._changeable(write.identity, webhook_id)
        if change.url is not None and change.url != webhook.url:
            await self._check_url(change.url)
        try:
            changed = await self.store.change(webhook, partial(self._changed, change, write.identity), write)
        except KeyReused as reuse:
            reuse.require_same_body(write)
            return webhook
        if changed is None:
            raise NotFound("There is no webhook with this id.")
        return changed

    async def delete(self, write: Write, webhook_id: str) -> None:
        await self.store.delete(await self._own(write.identity, webhook_id), write)

    async def rotate_secret(self, write: Write, webhook_id: str, *, grace_seconds: int) -> IssuedWebhook:
        """Adds a secret; the one before it signs along for ``grace_seconds``.

        Raises ``Conflict`` when too many sign.
        """
        if self.cipher is None:
            raise SecretsUnavailable
        webhook = await self._changeable(write.identity, webhook_id)
        text, now = new_webhook_secret(), self.now()
        secret, ends = _sealed(self.cipher, webhook.id, text, now), now + timedelta(seconds=grace_seconds)
        try:
            if await self.store.replace_secret(webhook, secret, write, old_expires_at=ends, most=MOST_SECRETS):
                return IssuedWebhook(webhook, text)
        except KeyReused as reuse:
            raise _made_before(reuse, write, "a new secret of this webhook") from None
        raise Conflict(f"{MOST_SECRETS} secrets sign already; the grace of one of them has to end first.")

    async def deliveries(self, reader: Identity, webhook_id: str, **page: Any) -> Page[Delivery]:
        return await self.store.deliveries((await self.get(reader, webhook_id)).id, **page)

    async def send_test(self, write: Write, webhook_id: str) -> Delivery:
        """Has one event of type ``webhook.test`` delivered, once, whatever types the webhook wants."""
        webhook = await self._enabled(write.identity, webhook_id)
        delivery_id, event_id, now = new_id(), new_id(), self.now()
        event = test_event(
            event_id=event_id, webhook_id=webhook.id, correlation_id=write.correlation_id, time=format_time(now)
        )
        delivery = Delivery(
            id=delivery_id,
            webhook_id=webhook.id,
            event_id=event_id,
            type=TEST_EVENT,
            chain=delivery_id,
            position=0,
            status=DeliveryStatus.PENDING,
            attempts=0,
            next_attempt_at=now,
            last_status=None,
            last_response=None,
            created_at=now,
        )
        try:
            await self.store.add_test(delivery, event, write)
        except KeyReused as reuse:
            return await self._repeated(write, webhook, reuse)
        return delivery

    async def deliver_again(self, write: Write, webhook_id: str, delivery_id: str) -> Delivery:
        """Begins a delivery anew, pending or settled, apart from the order of its subject."""
        webhook = await self._enabled(write.identity, webhook_id)
        delivery = await self.store.delivery(webhook.id, delivery_id) if is_id(delivery_id) else None
        if delivery is None:
            raise NotFound("There is no delivery with this id.")
        try:
            await self.store.deliver_again(delivery, write, now=self.now())
        except KeyReused as reuse:
            return await self._repeated(write, webhook, reuse)
        return await self.store.delivery(webhook.id, delivery_id) or delivery

    async def _own(self, writer: Identity, webhook_id: str) -> Webhook:
        """A webhook that the writer may write of."""
        webhook = await self.get(writer, webhook_id)
        if not writer.may_write_of(webhook.user_id):
            raise NotFound("There is no webhook with this id.")
        return webhook

    async def _changeable(self, writer: Identity, webhook_id: str) -> Webhook:
        """Raises ``PermissionDenied`` when the webhook shows more of the company than the caller may see."""
        webhook = await self._own(writer, webhook_id)
        if not webhook.may_be_changed_by(writer):
            raise PermissionDenied("This webhook gets events of the whole company: its changes need company:read.")
        return webhook

    async def _enabled(self, writer: Identity, webhook_id: str) -> Webhook:
        webhook = await self._own(writer, webhook_id)
        if webhook.status is not WebhookStatus.ENABLED:
            raise Conflict("The webhook is disabled: enable it first.")
        return webhook

    def _changed(self, change: WebhookChange, writer: Identity, webhook: Webhook) -> Webhook:
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

    async def _repeated(self, write: Write, webhook: Webhook, reuse: KeyReused) -> Delivery:
        reuse.require_same_body(write)
        delivery = await self.store.delivery(webhook.id, reuse.entity_id)
        if delivery is None:
            raise Conflict("The delivery of this request is not kept any more.")
        return delivery

    async def _check_url(self, url: str) -> None:
        problem = await self.client.refusal(url)
        if problem is not None:
            detail = ErrorDetail(loc=["url"], type="url_refused", message=problem, hint=_REFUSED_URL_HINT)
            raise ValidationFailed(f"The body is not valid: url: {problem}.", details=[detail])


def _sealed(cipher: SecretCipher, webhook_id: str, text: str, now: datetime) -> WebhookSecret:
    secret_id = new_id()
    ciphertext = cipher.encrypt(text, place=secret_place(webhook_id, secret_id))
    return WebhookSecret(id=secret_id, webhook_id=webhook_id, ciphertext=ciphertext, created_at=now)


def _made_before(reuse: KeyReused, write: Write, what: str) -> Conflict:
    reuse.require_same_body(write)
    return Conflict(
        f"This request has made {what} already. The secret was shown once and cannot be shown again; if it is lost,"
        " rotate it."
    )
