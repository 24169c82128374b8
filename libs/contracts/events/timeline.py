"""Events of the timeline: webhooks."""

from libs.contracts.messages import Event
from libs.contracts.timestamps import Timestamp


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
