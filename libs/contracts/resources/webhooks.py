"""Webhooks and their deliveries."""

from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.messages import Command, Event
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

TEST_EVENT: Final = "webhook.test"


class WebhookStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class Webhook(BaseModel):
    """A webhook. ``company_wide``: it gets events of all users' private sessions, as its maker could see them.

    ``failing_since`` is null unless the last attempts to deliver failed; then it is the time of the first of them.
    """

    id: str
    url: str
    event_types: list[str]
    description: str
    status: WebhookStatus
    disabled_reason: DisabledReason | None
    failing_since: Timestamp | None
    company_wide: bool
    user_id: str
    created_at: Timestamp
    updated_at: Timestamp


class IssuedWebhookReply(Webhook):
    """A webhook with its newest secret, which is shown this once."""

    secret: str


class WebhookPage(ListPage):
    webhooks: list[Webhook]


class Delivery(BaseModel):
    """An event on its way to a webhook.

    ``next_attempt_at`` is null for one that waits for an earlier event of its subject. ``last_response`` is the
    beginning of the last answer, or why there was none.
    """

    id: str
    event_id: str
    type: str
    status: Literal["pending", "delivered", "failed"]
    attempts: int
    next_attempt_at: Timestamp | None
    last_status: int | None
    last_response: str | None
    created_at: Timestamp


class DeliveryPage(ListPage):
    deliveries: list[Delivery]


def secret_place(webhook_id: str, secret_id: str) -> str:
    """The place that a secret's ciphertext is bound to."""
    return f"webhook_secrets/{webhook_id}/{secret_id}"


class WebhookCreated(Event, type="aes.timeline.webhook.created.v1"):
    """``secret_id``: the secret that signs, by the id that the command gave it."""

    webhook_id: str
    user_id: str
    event_types: list[str]
    secret_id: str
    created_at: Timestamp


class WebhookUpdated(Event, type="aes.timeline.webhook.updated.v1"):
    """Its address, event types, description or status was changed, or it was given a new secret, ``secret_id``."""

    webhook_id: str
    user_id: str
    event_types: list[str]
    status: str
    secret_id: str | None = None


class WebhookDisabled(Event, type="aes.timeline.webhook.disabled.v1"):
    """Nothing is delivered to it any more until somebody enables it.

    ``reason`` is ``gone``, ``unreachable``, ``key_revoked`` or ``requested``.
    """

    webhook_id: str
    user_id: str
    reason: str


class WebhookDeleted(Event, type="aes.timeline.webhook.deleted.v1"):
    webhook_id: str
    user_id: str


class WebhookDeliveryRequested(Event, type="aes.timeline.webhook.delivery_requested.v1"):
    """Somebody asked for a test, or for an event to be delivered again; it is due ``due_at``."""

    webhook_id: str
    user_id: str
    delivery_id: str
    event_id: str
    due_at: Timestamp


class SealedSecret(BaseModel):
    """A signing secret; ``ciphertext`` in base64, bound to ``secret_place``."""

    id: str
    ciphertext: str


class CreateWebhook(Command, type="aes.timeline.create_webhook.v1", outcomes=(WebhookCreated,)):
    """Deliver events of these types from now on. The webhook's id is the command's."""

    url: str
    event_types: tuple[str, ...]
    description: str
    status: WebhookStatus
    secret: SealedSecret


class UpdateWebhook(Command, type="aes.timeline.update_webhook.v1", outcomes=(WebhookUpdated,), subject="webhook_id"):
    """Change a webhook; what is null stays as it is."""

    webhook_id: str
    url: str | None = None
    event_types: tuple[str, ...] | None = None
    description: str | None = None
    status: WebhookStatus | None = None


class DeleteWebhook(Command, type="aes.timeline.delete_webhook.v1", outcomes=(WebhookDeleted,), subject="webhook_id"):
    webhook_id: str


class RotateWebhookSecret(
    Command, type="aes.timeline.rotate_webhook_secret.v1", outcomes=(WebhookUpdated,), subject="webhook_id"
):
    """Sign with another secret; the one before it signs along for ``grace_seconds``."""

    webhook_id: str
    secret: SealedSecret
    grace_seconds: int


class SendTestEvent(
    Command, type="aes.timeline.send_test_event.v1", outcomes=(WebhookDeliveryRequested,), subject="webhook_id"
):
    """Deliver an event ``webhook.test`` once."""

    webhook_id: str


class Redeliver(Command, type="aes.timeline.redeliver.v1", outcomes=(WebhookDeliveryRequested,), subject="webhook_id"):
    """Begin a delivery anew."""

    webhook_id: str
    delivery_id: str
