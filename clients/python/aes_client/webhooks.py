"""Verifies webhook deliveries, signed as described at https://www.standardwebhooks.com."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aes_client.errors import AesError
from aes_client.models import Model

_TOLERANCE_SECONDS = 300


class WebhookNotVerified(AesError):
    """The delivery isn't from the service, was modified, or is too old."""


class WebhookEvent(Model):
    """The event in a verified delivery. ``data`` is the event as in the timeline.

    If the event is delivered again, ``data["id"]`` is the same.
    """

    type: str
    timestamp: datetime
    data: dict[str, Any]


def verify_webhook(secret: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> WebhookEvent:
    """Verifies a delivery and returns its event. Raises ``WebhookNotVerified``.

    ``secret`` is the webhook's secret, which starts with ``whsec_``. ``body`` is the unmodified request body.
    """
    given = {name.lower(): value for name, value in headers.items()}
    try:
        delivery, sent, signatures = (given[f"webhook-{name}"] for name in ("id", "timestamp", "signature"))
        age = (time.time() if now is None else now) - int(sent)
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (KeyError, ValueError) as problem:
        message = "A header or the secret is missing or malformed. Pass all headers and the whsec_… secret."
        raise WebhookNotVerified(message) from problem
    if abs(age) > _TOLERANCE_SECONDS:
        raise WebhookNotVerified("The delivery is too old, or a clock is wrong. Check this machine's clock.")
    digest = hmac.new(key, b".".join([delivery.encode(), sent.encode(), body]), hashlib.sha256).digest()
    expected = b"v1," + base64.b64encode(digest)
    if not any(hmac.compare_digest(each.encode(), expected) for each in signatures.split()):
        raise WebhookNotVerified("No signature matches. Check the secret, and pass the body unmodified.")
    return WebhookEvent.model_validate_json(body)
