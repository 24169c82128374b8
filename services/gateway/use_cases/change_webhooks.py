"""Creates, reads, changes and deletes webhooks; those of other users only with ``company:…`` scopes."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial

from libs.contracts.errors import Conflict, ErrorDetail, NotFound, PermissionDenied, ValidationFailed
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import Identity
from libs.secrets import SecretCipher
from services.gateway.domain.idempotency import KeyReused, OtherBody, Write
from services.gateway.domain.secrets import SecretsUnavailable
from services.gateway.domain.webhook_ports import WebhookClient, WebhookStore
from services.gateway.domain.webhooks import (
    MOST_SECRETS,
    MOST_WEBHOOKS,
    DisabledReason,
    TooManyWebhooks,
    Webhook,
    WebhookSecret,
    WebhookStatus,
    new_webhook_secret,
    secret_place,
)

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
class CreateWebhook:
    """Raises ``SecretsUnavailable`` without a key for secrets, ``ValidationFailed`` for a URL that is not to be called,
    and ``Conflict`` when the company has too many.
    """

    store: WebhookStore
    client: WebhookClient
    cipher: SecretCipher | None
    now: Callable[[], datetime]

    async def __call__(self, write: Write, wanted: WebhookRequest) -> IssuedWebhook:
        if self.cipher is None:
            raise SecretsUnavailable
        await _check_url(self.client, wanted.url)
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


@dataclass(frozen=True, slots=True)
class GetWebhook:
    store: WebhookStore

    async def __call__(self, reader: Identity, webhook_id: str) -> Webhook:
        webhook = await self.store.webhook(reader.company_id, webhook_id) if is_id(webhook_id) else None
        if webhook is None or not reader.may_read_of(webhook.user_id):
            raise NotFound("There is no webhook with this id.")
        return webhook


@dataclass(frozen=True, slots=True)
class GetChangeableWebhook:
    """Raises ``PermissionDenied`` when the webhook shows more of the company than the caller may see."""

    store: WebhookStore

    async def __call__(self, writer: Identity, webhook_id: str) -> Webhook:
        webhook = await GetWebhook(self.store)(writer, webhook_id)
        if not writer.may_write_of(webhook.user_id):
            raise NotFound("There is no webhook with this id.")
        if not webhook.may_be_changed_by(writer):
            raise PermissionDenied("This webhook gets events of the whole company: its changes need company:read.")
        return webhook


@dataclass(frozen=True, slots=True)
class ChangeWebhook:
    """A webhook is bound to the key that enables it again: the previous key may have been revoked."""

    store: WebhookStore
    client: WebhookClient
    now: Callable[[], datetime]

    async def __call__(self, write: Write, webhook_id: str, change: WebhookChange) -> Webhook:
        webhook = await GetChangeableWebhook(self.store)(write.identity, webhook_id)
        if change.url is not None and change.url != webhook.url:
            await _check_url(self.client, change.url)
        try:
            changed = await self.store.change(webhook, partial(self._changed, change, write.identity), write)
        except KeyReused as reuse:
            if write.request is None or write.request.body_hash != reuse.body_hash:
                raise OtherBody from None
            return webhook
        if changed is None:
            raise NotFound("There is no webhook with this id.")
        return changed

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


@dataclass(frozen=True, slots=True)
class DeleteWebhook:
    store: WebhookStore

    async def __call__(self, write: Write, webhook_id: str) -> None:
        webhook = await GetWebhook(self.store)(write.identity, webhook_id)
        if not write.identity.may_write_of(webhook.user_id):
            raise NotFound("There is no webhook with this id.")
        await self.store.delete(webhook, write)


@dataclass(frozen=True, slots=True)
class RotateWebhookSecret:
    """Adds a secret; the one before it signs along for ``grace_seconds``. Raises ``Conflict`` when too many sign."""

    store: WebhookStore
    cipher: SecretCipher | None
    now: Callable[[], datetime]

    async def __call__(self, write: Write, webhook_id: str, *, grace_seconds: int) -> IssuedWebhook:
        if self.cipher is None:
            raise SecretsUnavailable
        webhook = await GetChangeableWebhook(self.store)(write.identity, webhook_id)
        text, now = new_webhook_secret(), self.now()
        secret, ends = _sealed(self.cipher, webhook.id, text, now), now + timedelta(seconds=grace_seconds)
        try:
            if await self.store.replace_secret(webhook, secret, write, old_expires_at=ends, most=MOST_SECRETS):
                return IssuedWebhook(webhook, text)
        except KeyReused as reuse:
            raise _made_before(reuse, write, "a new secret of this webhook") from None
        raise Conflict(f"{MOST_SECRETS} secrets sign already; the grace of one of them has to end first.")


async def _check_url(client: WebhookClient, url: str) -> None:
    problem = await client.refusal(url)
    if problem is not None:
        detail = ErrorDetail(loc=["url"], type="url_refused", message=problem, hint=_REFUSED_URL_HINT)
        raise ValidationFailed(f"The body is not valid: url: {problem}.", details=[detail])


def _sealed(cipher: SecretCipher, webhook_id: str, text: str, now: datetime) -> WebhookSecret:
    secret_id = new_id()
    ciphertext = cipher.encrypt(text, place=secret_place(webhook_id, secret_id))
    return WebhookSecret(id=secret_id, webhook_id=webhook_id, ciphertext=ciphertext, created_at=now)


def _made_before(reuse: KeyReused, write: Write, what: str) -> Conflict | OtherBody:
    if write.request is not None and write.request.body_hash != reuse.body_hash:
        return OtherBody()
    return Conflict(
        f"This request has made {what} already. The secret was shown once and cannot be shown again; if it is lost,"
        " rotate it."
    )
