"""Handles the gateway's events about keys, which affect webhooks."""

from libs.contracts.resources.keys import ApiKeyCreated, ApiKeyRevoked
from libs.eventing import EventRouter
from services.timeline.use_cases.webhooks import Webhooks


def follow_keys(router: EventRouter, webhooks: Webhooks) -> None:
    router.on(ApiKeyCreated, webhooks.key_created)
    router.on(ApiKeyRevoked, webhooks.key_revoked)
