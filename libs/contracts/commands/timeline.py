"""Commands to the timeline: webhooks."""

from pydantic import BaseModel

from libs.contracts.api.webhooks import WebhookStatus
from libs.contracts.events.timeline import WebhookCreated, WebhookDeleted, WebhookDeliveryRequested, WebhookUpdated
from libs.contracts.messages import Command


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
