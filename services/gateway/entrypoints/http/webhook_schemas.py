"""Bodies and answers of ``/webhooks/…``."""

from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, Field

from libs.contracts.api.agents import StrictModel
from libs.contracts.api.pages import ListPage
from libs.contracts.timestamps import Timestamp
from services.gateway.domain.webhooks import EVENT_TYPE, DisabledReason, WebhookStatus, unknown_types

_DAY: Final = 86_400


def _event_type(text: str) -> str:
    if unknown_types([text]):
        raise ValueError("there is no recorded event of this name; a prefix ends in an asterisk")
    return text


EventTypeName = Annotated[
    str,
    AfterValidator(_event_type),
    Field(max_length=100, pattern=f"^({EVENT_TYPE.pattern})$", examples=["turn.completed", "knowledge_base.*", "*"]),
]
EventTypes = Annotated[
    list[EventTypeName],
    Field(min_length=1, max_length=50, description="Names of events, or prefixes that end in `*`."),
]
Url = Annotated[
    str,
    Field(min_length=1, max_length=2000, description="Called by POST. A public address, `https` or `http`."),
]
Status = Literal["enabled", "disabled"]


class CreateWebhookBody(StrictModel):
    """``POST /webhooks/``."""

    url: Url
    event_types: EventTypes
    description: str = Field(default="", max_length=1000)
    status: Status = "enabled"


class UpdateWebhookBody(StrictModel):
    """``PATCH /webhooks/{id}/``. What is left out stays as it is."""

    url: Url | None = None
    event_types: EventTypes | None = None
    description: str | None = Field(default=None, max_length=1000)
    status: Status | None = Field(
        default=None, description="One that is enabled again gets what happened meanwhile, as far as it is recorded."
    )


class RotateWebhookBody(StrictModel):
    """``POST /webhooks/{id}/rotate/``."""

    grace_seconds: int = Field(
        default=_DAY, ge=0, le=30 * _DAY, description="How long the secret before it signs along."
    )


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


WEBHOOKS: Final[dict[str, Any]] = {
    "ends of turns": {
        "url": "https://example.com/hooks/agents",
        "event_types": ["turn.completed", "turn.failed"],
        "description": "Tickets",
    },
    "everything": {"url": "https://example.com/hooks/audit", "event_types": ["*"]},
}
CHANGES: Final[dict[str, Any]] = {
    "other events": {"event_types": ["turn.*", "knowledge_base.ingestion.completed"]},
    "enabled again": {"status": "enabled"},
}
ROTATION: Final = {"an hour of both": {"grace_seconds": 3600}}
