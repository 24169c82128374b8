"""Webhooks and their deliveries."""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import PydanticCustomError

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.findings import did_you_mean
from libs.contracts.messages import Command, Event, command_models, event_models, public_name
from libs.contracts.models import StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp
from libs.contracts.topics import TopicKind

TEST_EVENT: Final = "webhook.test"


_DAY: Final = 86_400
_EVENT_TYPE: Final = r"\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.?\*)?"


def recorded_types() -> set[str]:
    """Returns the types of all events and rejections. Import all resources first."""
    events = {name for name, event in event_models().items() if event.TOPIC.kind is TopicKind.EVENTS}
    rejections = {command.rejected_type() for command in command_models().values()}
    return set(map(public_name, events | rejections))


def selects_events(text: str, known: Collection[str]) -> bool:
    """Returns whether this is one of the known types, or a prefix of one that ends in ``*``."""
    return text in known or (text.endswith("*") and any(each.startswith(text[:-1]) for each in known))


def _event_type(text: str) -> str:
    known = recorded_types()
    if not selects_events(text, known):
        message = "must be an event type such as turn.completed, or a prefix such as turn.*"
        hint = did_you_mean(text, sorted(known))
        raise PydanticCustomError("value_error", message, {"hint": hint} if hint else None)
    return text


EventTypeName = Annotated[
    str,
    AfterValidator(_event_type),
    Field(max_length=100, pattern=f"^({_EVENT_TYPE})$", examples=["turn.completed", "knowledge_base.*", "*"]),
]
EventTypes = Annotated[
    list[EventTypeName],
    Field(min_length=1, max_length=50, description="Event types, or prefixes that end in `*`."),
]
Url = Annotated[
    str,
    Field(
        min_length=1,
        max_length=2000,
        description="The public `https` or `http` URL that receives the POST requests.",
    ),
]
Status = Literal["enabled", "disabled"]


class WebhookStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class CreateWebhookBody(StrictModel):
    """The body of ``POST /webhooks/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "finished turns": {
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
    """The body of ``PATCH /webhooks/{id}/``. Omitted fields keep their values."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "other events": {"event_types": ["turn.*", "knowledge_base.ingestion.completed"]},
        "enable again": {"status": "enabled"},
    }

    url: Url | None = None
    event_types: EventTypes | None = None
    description: str | None = Field(default=None, max_length=1000)
    status: Status | None = Field(
        default=None,
        description="A webhook that is enabled again also receives the events it missed, as far back as the timeline"
        " goes.",
    )


class RotateWebhookBody(StrictModel):
    """The body of ``POST /webhooks/{id}/rotate/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"one hour of overlap": {"grace_seconds": 3600}}

    grace_seconds: int = Field(
        default=_DAY,
        ge=0,
        le=30 * _DAY,
        description="How long deliveries are also signed with the previous secret.",
    )


class Webhook(BaseModel):
    """A webhook. If ``company_wide`` is true, it also receives the events of all users' private sessions.

    ``failing_since`` is the time of the first failed attempt since the last success, or ``null``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "finished turns": {
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
    """A webhook with its newest signing secret, which is shown only once."""

    secret: str


class WebhookPage(ListPage):
    webhooks: list[Webhook]


class Delivery(BaseModel):
    """The delivery of an event to a webhook.

    ``next_attempt_at`` is ``null`` while the delivery waits for an earlier event of the same subject. ``last_response``
    is the start of the last response, or the reason why there was none.
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


def secret_context(webhook_id: str, secret_id: str) -> str:
    """Returns the only context in which a signing secret's ciphertext can be decrypted."""
    return f"webhook_secrets/{webhook_id}/{secret_id}"


class WebhookCreated(Event, type="aes.timeline.webhook.created.v1"):
    """A webhook was created. ``secret_id`` is the ID of its signing secret."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "finished turns": {
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
    """A webhook's URL, event types, description, status or signing secret changed.

    If the signing secret changed, ``secret_id`` is the new secret's ID.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"other events": {"event_types": ["turn.*"], "status": "enabled"}}

    webhook_id: str
    user_id: str
    event_types: list[str]
    status: str
    secret_id: str | None = None


class WebhookDisabled(Event, type="aes.timeline.webhook.disabled.v1"):
    """A webhook was disabled. It receives no events until it's enabled again.

    ``reason`` is ``gone``, ``unreachable``, ``key_revoked`` or ``requested``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"unreachable": {"reason": "unreachable"}}

    webhook_id: str
    user_id: str
    reason: str


class WebhookDeleted(Event, type="aes.timeline.webhook.deleted.v1"):
    """A webhook was deleted."""

    webhook_id: str
    user_id: str


class WebhookDeliveryRequested(Event, type="aes.timeline.webhook.delivery_requested.v1"):
    """A test event or a redelivery was requested. It will be sent at ``due_at``."""

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
    """An encrypted signing secret. ``ciphertext`` is base64 and bound to ``secret_context``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "a webhook's secret": {
            "id": "01980f5a-1c3d-7c44-8e52-3a7b9d1c8f24",
            "ciphertext": "AQ3t7Q2pY0d9c4bJm1N5a2V5aWRub25jZWNpcGhlcnRleHQ=",
        }
    }

    id: str
    ciphertext: str


class CreateWebhook(Command, type="aes.timeline.create_webhook.v1", outcomes=(WebhookCreated,)):
    """Create a webhook that receives new events of the given types. The webhook's ID is the command's ID."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "finished turns": {
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
    """Update a webhook. Fields that are ``null`` keep their values."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"other events, enabled": {"event_types": ["turn.*"], "status": "enabled"}}

    webhook_id: str
    url: str | None = None
    event_types: tuple[str, ...] | None = None
    description: str | None = None
    status: WebhookStatus | None = None


class DeleteWebhook(Command, type="aes.timeline.delete_webhook.v1", outcomes=(WebhookDeleted,), subject="webhook_id"):
    """Delete a webhook."""

    webhook_id: str


class RotateWebhookSecret(
    Command, type="aes.timeline.rotate_webhook_secret.v1", outcomes=(WebhookUpdated,), subject="webhook_id"
):
    """Replace a webhook's signing secret.

    For ``grace_seconds``, deliveries are also signed with the previous secret.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"one hour of overlap": {"grace_seconds": 3600}}

    webhook_id: str
    secret: SealedSecret
    grace_seconds: int


class SendTestEvent(
    Command, type="aes.timeline.send_test_event.v1", outcomes=(WebhookDeliveryRequested,), subject="webhook_id"
):
    """Deliver a ``webhook.test`` event to a webhook, without retries."""

    webhook_id: str


class Redeliver(Command, type="aes.timeline.redeliver.v1", outcomes=(WebhookDeliveryRequested,), subject="webhook_id"):
    """Deliver an event to a webhook again."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a failed delivery": {"delivery_id": "01980f60-3e5f-7d55-9f63-4b8cae2d9035"}}

    webhook_id: str
    delivery_id: str
