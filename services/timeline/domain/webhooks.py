"""Webhooks: endpoints of users to which events of the timeline are delivered."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import AuthenticationFailed, NotFound
from libs.contracts.identity import Identity
from libs.contracts.resources import webhooks
from libs.contracts.resources.webhooks import WebhookDisabled, WebhookStatus, secret_place
from libs.contracts.timeline import TimelineFilter

MOST_WEBHOOKS: Final = 50
"""Webhooks of one company."""
MOST_SECRETS: Final = 5
"""Secrets of one webhook that sign at the same time."""


class WebhookNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("There is no webhook with this ID.")


class DeliveryNotFound(NotFound):
    def __init__(self) -> None:
        super().__init__("There is no delivery with this ID.")


class WriterRevoked(AuthenticationFailed):
    """A webhook must not stand on a key that was revoked before its command was carried out."""

    def __init__(self) -> None:
        super().__init__("The API key was revoked.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An endpoint. ``key_id`` is the API key that it was made with; revoking that key disables the webhook.

    It gets events that its maker may see: all of the company when ``sees_company``, else those that are not of other
    users' private sessions. ``failing_since``: since when no attempt has succeeded; None after one that did.
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
        """The events that are delivered."""
        return TimelineFilter(
            company_id=self.company_id,
            types=self.event_types,
            visible_to=None if self.sees_company else self.user_id,
        )

    def public(self) -> webhooks.Webhook:
        return webhooks.Webhook(
            id=self.id,
            url=self.url,
            event_types=list(self.event_types),
            description=self.description,
            status=self.status,
            disabled_reason=self.disabled_reason,
            failing_since=self.failing_since,
            company_wide=self.sees_company,
            user_id=self.user_id,
            created_at=self.created_at,
            updated_at=self.updated_at,
        )

    def disabled_because(self, reason: DisabledReason) -> WebhookDisabled:
        return WebhookDisabled(webhook_id=self.id, user_id=self.user_id, reason=reason)

    def may_be_changed_by(self, identity: Identity) -> bool:
        """Whether a change gives nobody events that they may not see."""
        return identity.reads_company or not self.sees_company


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookSecret:
    """A signing secret as it is stored. One without ``expires_at`` is the newest."""

    id: str
    webhook_id: str
    ciphertext: bytes
    created_at: datetime
    expires_at: datetime | None = None

    @property
    def place(self) -> str:
        """The place that the ciphertext is bound to."""
        return secret_place(self.webhook_id, self.id)
