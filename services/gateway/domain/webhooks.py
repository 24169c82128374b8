"""Webhooks: endpoints of users to which events of the timeline are delivered."""

import base64
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Final

from libs.contracts.asyncapi import published_messages
from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity
from libs.contracts.messages import public_name
from libs.contracts.topics import TopicKind
from services.gateway.domain.timeline import TimelineFilter

MOST_WEBHOOKS: Final = 50
"""Webhooks of one company."""
MOST_SECRETS: Final = 5
"""Secrets of one webhook that sign at the same time."""
TEST_EVENT: Final = "webhook.test"
EVENT_TYPE: Final = re.compile(r"\*|[a-z0-9_]+(\.[a-z0-9_]+)*(\.?\*)?")
_SECRET_BYTES: Final = 32


class WebhookStatus(StrEnum):
    ENABLED = "enabled"
    DISABLED = "disabled"


class DisabledReason(StrEnum):
    """Why a webhook gets nothing."""

    REQUESTED = "requested"
    GONE = "gone"
    UNREACHABLE = "unreachable"
    KEY_REVOKED = "key_revoked"


class TooManyWebhooks(Exception):
    """The company has as many webhooks as it may have."""


class WriterRevoked(AuthenticationFailed):
    """A webhook must not stand on a key that was revoked while the request was under way."""

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


def secret_place(webhook_id: str, secret_id: str) -> str:
    return f"webhook_secrets/{webhook_id}/{secret_id}"


def new_webhook_secret() -> str:
    """A secret in the form of Standard Webhooks."""
    return "whsec_" + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


@cache
def recorded_types() -> frozenset[str]:
    """Names of all events that the timeline records."""
    events = (name for name, (_, topic) in published_messages().items() if topic.kind is TopicKind.EVENTS)
    return frozenset(map(public_name, events))


def unknown_types(wanted: Iterable[str]) -> list[str]:
    """Selects the names and prefixes that stand for no event."""
    known = recorded_types()

    def stands_for_some(name: str) -> bool:
        return name in known or (name.endswith("*") and any(each.startswith(name[:-1]) for each in known))

    return [name for name in wanted if not stands_for_some(name)]
