"""Webhooks: users' endpoints that receive events from the timeline."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Final

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import AuthenticationFailed, NotFound
from libs.contracts.identity import Identity
from libs.contracts.resources import webhooks
from libs.contracts.resources.webhooks import WebhookDisabled, WebhookStatus, secret_context
from libs.contracts.timeline import TimelineFilter

MOST_WEBHOOKS: Final = 50
"""The maximum number of webhooks per company."""
MOST_SECRETS: Final = 5
"""The maximum number of valid secrets per webhook."""


class WebhookNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("There is no webhook with this ID.")


class DeliveryNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("There is no delivery with this ID.")


class WriterRevoked(AuthenticationFailed):
    """The key that creates or enables a webhook has just been revoked."""

    def __init__(self) -> None:
        super().__init__("The API key was revoked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """A user's endpoint. If the API key ``key_id`` is revoked, the webhook is disabled.

    ``key_id`` is the key that created or last enabled the webhook, or that key's successor. Events of other users'
    private sessions are only included if ``sees_company`` is true. ``failing_since`` is when the current failures
    began.
    """

    id: str
    company_id: str
    user_id: str
    key_id: str
    sees_company: bool
    url: str
    event_types: tuple[str, ...]
    description: str
    status: WebhookStatus
    disabled_reason: DisabledReason | None
    created_at: datetime
    updated_at: datetime
    failing_since: datetime | None = None

    @property
    def wanted(self) -> TimelineFilter:
        """The filter for the events to deliver."""
        return TimelineFilter(
            company_id=self.company_id,
            types=self.event_types,
            visible_to=None if self.sees_company else self.user_id,
        )

    def public(self) -> webhooks.Webhook:
        return webhooks.Webhook.model_validate({**asdict(self), "company_wide": self.sees_company})

    def disabled_because(self, reason: DisabledReason) -> WebhookDisabled:
        return WebhookDisabled(webhook_id=self.id, user_id=self.user_id, reason=reason)

    def may_be_changed_by(self, identity: Identity) -> bool:
        """Returns whether the caller can see all events that the webhook receives."""
        return identity.reads_company or not self.sees_company


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSecret:
    """A stored signing secret. The newest one has no ``expires_at``."""

    id: str
    webhook_id: str
    ciphertext: bytes
    created_at: datetime
    expires_at: datetime | None = None

    @property
    def context(self) -> str:
        """The context to which the ciphertext is bound."""
        return secret_context(self.webhook_id, self.id)
