"""Webhooks and their deliveries."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, Field

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.messages import Command, Event, command_models, event_models, public_name
from libs.contracts.models import StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp
from libs.contracts.topics import TopicKind

TEST_EVENT: Final = "webhook.test"


_DAY: Final = 86_400
_EVENT_TYPE: Final = r"\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.?\*)?"


def _recorded_types() -> set[str]:
    """Names of all events that the timeline records, in a process that has imported every resource."""
    events = {name for name, event in event_models().items() if event.TOPIC.kind is TopicKind.EVENTS}
    rejections = {command.rejected_type() for command in command_models().values()}
    return set(map(public_name, events | rejections))


def _event_type(text: str) -> str:
    known = _recorded_types()
    if text not in known and not (text.endswith("*") and any(each.startswith(text[:-1]) for each in known)):
        raise ValueError("there is no recorded event of this name; a prefix ends in an asterisk")
    return text


EventTypeName = Annotated[
    str,
    AfterValidator(_event_type),
    Field(max_length=100, pattern=f"^({_EVENT_TYPE})$", examples=["turn.completed", "knowledge_base.*", "*"]),
]
EventTypes = Annotated[
    list[EventTypeName],
    Field(min_length=1, max_length=50, description="Names of events, or prefixes that end in `*`."),
]
Url = Annotated[
    str,
    Field(min_length=1, max_length=2000, description="Receives POST requests. A public address, `https` or `http`."),
]
Status = Literal["enabled", "disabled"]


class WebhookStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class CreateWebhookBody(StrictModel):
    """``POST /webhooks/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "ends of turns": {
            "url": "https://example.com/hooks/agents",
            "event_types": ["turn.completed", "turn.failed"],
            "description": "Tickets",
        },
        "everything": {"url": "https://example.com/hooks/audit", "event_types": ["*"]},
    }

    url: Url
    event_types: EventTypes
    description: str = Field(default="", max_length=1000)
    status: Status = "enabled"


class UpdateWebhookBody(StrictModel):
    """``PATCH /webhooks/{id}/``. Omitted fields stay unchanged."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "other events": {"event_types": ["turn.*", "knowledge_base.ingestion.completed"]},
        "enabled again": {"status": "enabled"},
    }

    url: Url | None = None
    event_types: EventTypes | None = None
    description: str | None = Field(default=None, max_length=1000)
    status: Status | None = Field(
        default=None, description="A re-enabled webhook receives the events since then, as far as they are recorded."
    )


class RotateWebhookBody(StrictModel):
    """``POST /webhooks/{id}/rotate/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"an hour of both": {"grace_seconds": 3600}}

    grace_seconds: int = Field(default=_DAY, ge=0, le=30 * _DAY, description="How long the previous secret also signs.")


class Webhook(BaseModel):
    """A webhook. ``company_wide``: it gets events of all users' private sessions, as its maker could see them.

    ``failing_since`` is null unless the last attempts to deliver failed; then it is the time of the first of them.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "ends of turns": {
            "id": "01980f5a-1c3e-7b20-9d41-2f6a8c0b7e13",
            "url": "https://example.com/hooks/agents",
            "event_types": ["turn.completed", "turn.failed"],
            "description": "Tickets",
            "status": "enabled",
            "disabled_reason": None,
            "failing_since": None,
            "company_wide": False,
            "user_id": "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02",
            "created_at": "2026-05-04T08:20:11.402817Z",
            "updated_at": "2026-05-04T08:20:11.402817Z",
        }
    }

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

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "ends of turns": {
            "event_types": ["turn.completed", "turn.failed"],
            "secret_id": "01980f5a-1c3d-7c44-8e52-3a7b9d1c8f24",
            "created_at": "2026-05-04T08:20:11.402817Z",
        }
    }

    webhook_id: str
    user_id: str
    event_types: list[str]
    secret_id: str
    created_at: Timestamp


class WebhookUpdated(Event, type="aes.timeline.webhook.updated.v1"):
    """Its address, event types, description or status was changed, or it was given a new secret, ``secret_id``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"other events": {"event_types": ["turn.*"], "status": "enabled"}}

    webhook_id: str
    user_id: str
    event_types: list[str]
    status: str
    secret_id: str | None = None


class WebhookDisabled(Event, type="aes.timeline.webhook.disabled.v1"):
    """Nothing is delivered to it any more until somebody enables it.

    ``reason`` is ``gone``, ``unreachable``, ``key_revoked`` or ``requested``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"unreachable": {"reason": "unreachable"}}

    webhook_id: str
    user_id: str
    reason: str


class WebhookDeleted(Event, type="aes.timeline.webhook.deleted.v1"):
    webhook_id: str
    user_id: str


class WebhookDeliveryRequested(Event, type="aes.timeline.webhook.delivery_requested.v1"):
    """Somebody asked for a test, or for an event to be delivered again; it is due ``due_at``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a test": {
            "delivery_id": "01980f60-3e5f-7d55-9f63-4b8cae2d9035",
            "event_id": "01980f60-3e5e-7d55-9f63-4b8cae2d9036",
            "due_at": "2026-05-06T08:20:11.398214Z",
        }
    }

    webhook_id: str
    user_id: str
    delivery_id: str
    event_id: str
    due_at: Timestamp


class SealedSecret(BaseModel):
    """A signing secret; ``ciphertext`` in base64, bound to ``secret_place``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "of a webhook": {
            "id": "01980f5a-1c3d-7c44-8e52-3a7b9d1c8f24",
            "ciphertext": "AQ3t7Q2pY0d9c4bJm1N5a2V5aWRub25jZWNpcGhlcnRleHQ=",
        }
    }

    id: str
    ciphertext: str


class CreateWebhook(Command, type="aes.timeline.create_webhook.v1", outcomes=(WebhookCreated,)):
    """Deliver events of these types from now on. The webhook's id is the command's."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "ends of turns": {
            "url": "https://example.com/hooks/agents",
            "event_types": ["turn.completed", "turn.failed"],
            "description": "Tickets",
            "status": "enabled",
        }
    }

    url: str
    event_types: tuple[str, ...]
    description: str
    status: WebhookStatus
    secret: SealedSecret


class UpdateWebhook(Command, type="aes.timeline.update_webhook.v1", outcomes=(WebhookUpdated,), subject="webhook_id"):
    """Change a webhook; what is null stays as it is."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "other events, enabled again": {"event_types": ["turn.*"], "status": "enabled"}
    }

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

    EXAMPLES: ClassVar[dict[str, Any]] = {"an hour of both": {"grace_seconds": 3600}}

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

    EXAMPLES: ClassVar[dict[str, Any]] = {"a failed delivery": {"delivery_id": "01980f60-3e5f-7d55-9f63-4b8cae2d9035"}}

    webhook_id: str
    delivery_id: str
