"""Creates webhooks' secrets, and encrypts them."""

import base64
import secrets
from dataclasses import dataclass
from typing import Final

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import Conflict
from libs.contracts.identifiers import new_id
from libs.contracts.messages import Command
from libs.contracts.resources.webhooks import (
    CreateWebhook,
    CreateWebhookBody,
    IssuedWebhookReply,
    RotateWebhookSecret,
    SealedSecret,
    Webhook,
    WebhookCreated,
    WebhookStatus,
    WebhookUpdated,
    secret_context,
)
from libs.secrets import SecretCipher
from services.gateway.domain.idempotency import Write
from services.gateway.use_cases.command_dispatcher import CommandDispatcher
from services.gateway.use_cases.secrets import SecretsUnavailable

_SECRET_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class NewSecret:
    """A new signing secret, in the format of Standard Webhooks."""

    cipher: SecretCipher
    id: str
    text: str

    def sealed(self, webhook_id: str) -> SealedSecret:
        ciphertext = self.cipher.encrypt(self.text, context=secret_context(webhook_id, self.id))
        return SealedSecret(id=self.id, ciphertext=base64.b64encode(ciphertext).decode())

    def shown(self, stored_id: str | None, what: str) -> str:
        """Returns the secret. Raises ``Conflict`` if an earlier attempt stored another secret."""
        if self.id != stored_id:
            raise Conflict(
                f"This request already created {what}. Secrets are shown only once; rotate the secret if it's lost."
            )
        return self.text


@dataclass(frozen=True, slots=True)
class Webhooks:
    """Creates webhooks and rotates their secrets. Methods raise ``SecretsUnavailable`` without an encryption key.

    A secret leaves this process only in the response, or encrypted.
    """

    commands: CommandDispatcher
    cipher: SecretCipher | None

    async def create(self, write: Write, wanted: CreateWebhookBody) -> IssuedWebhookReply:
        """Raises ``ValidationFailed`` for a rejected URL, and ``Conflict`` if the company has too many webhooks."""
        secret, status = self._new_secret(), WebhookStatus(wanted.status)
        event_types = tuple(dict.fromkeys(wanted.event_types))

        def make(command_id: str) -> Command:
            return CreateWebhook(
                url=wanted.url,
                event_types=event_types,
                description=wanted.description,
                status=status,
                secret=secret.sealed(command_id),
            )

        received = await self.commands.create(write, CreateWebhook, make)
        created = WebhookCreated.decode(received.payload)
        text = secret.shown(created.secret_id, f"the webhook {created.webhook_id}")
        return IssuedWebhookReply(
            id=created.webhook_id,
            url=wanted.url,
            event_types=list(event_types),
            description=wanted.description,
            status=status,
            disabled_reason=DisabledReason.REQUESTED if status is WebhookStatus.DISABLED else None,
            failing_since=None,
            company_wide=write.identity.reads_company,
            user_id=write.identity.user_id,
            created_at=created.created_at,
            updated_at=created.created_at,
            secret=text,
        )

    async def rotate_secret(self, write: Write, webhook: Webhook, *, grace_seconds: int) -> IssuedWebhookReply:
        """Adds a secret. For ``grace_seconds``, deliveries are also signed with the previous secret.

        Raises ``Conflict`` if the webhook has too many valid secrets.
        """
        secret = self._new_secret()

        def make(_: str) -> Command:
            sealed = secret.sealed(webhook.id)
            return RotateWebhookSecret(webhook_id=webhook.id, secret=sealed, grace_seconds=grace_seconds)

        received = await self.commands.create(write, RotateWebhookSecret, make)
        text = secret.shown(WebhookUpdated.decode(received.payload).secret_id, "a new secret for this webhook")
        return IssuedWebhookReply(**webhook.model_dump(), secret=text)

    def _new_secret(self) -> NewSecret:
        if self.cipher is None:
            raise SecretsUnavailable
        return NewSecret(
            self.cipher, new_id(), "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        )
