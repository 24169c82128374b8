"""Webhooks and their deliveries, as the API shows them."""

from enum import StrEnum
from typing import Final, Literal

from pydantic import BaseModel

from libs.contracts.api.pages import ListPage
from libs.contracts.error_catalogue import DisabledReason
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
