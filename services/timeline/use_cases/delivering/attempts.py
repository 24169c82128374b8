"""Signs and sends deliveries."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from standardwebhooks import Webhook as Signer

from libs.secrets import SecretCipher, SecretUnreadable
from services.timeline.adapters import delivery_metrics
from services.timeline.domain.deliveries import Answer, DueDelivery
from services.timeline.domain.ports import ClaimedWebhook, WebhookClient

_CONTENT_TYPE: Final = "application/json"


class WebhookAttempts:
    """Sends deliveries, signed with all of the webhook's valid secrets."""

    def __init__(self, client: WebhookClient, cipher: SecretCipher | None) -> None:
        self._client = client
        self._cipher = cipher

    async def make(self, claimed: ClaimedWebhook, delivery: DueDelivery, now: datetime) -> Answer:
        """Makes an attempt. Raises ``SecretUnreadable``, without sending, if the newest secret can't be decrypted."""
        body, began = delivery.body, time.monotonic()
        answer = await self._client.post(claimed.webhook.url, self._headers(claimed, delivery, body, now), body)
        delivery_metrics.attempted(answer, time.monotonic() - began)
        return answer

    def _headers(self, claimed: ClaimedWebhook, delivery: DueDelivery, body: bytes, now: datetime) -> Mapping[str, str]:
        moment, text = now.astimezone(UTC), body.decode()
        signatures = [Signer(secret).sign(delivery.event_id, moment, text) for secret in self._readable(claimed)]
        return {
            "content-type": _CONTENT_TYPE,
            "webhook-id": delivery.event_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": " ".join(signatures),
        }

    def _readable(self, claimed: ClaimedWebhook) -> list[str]:
        if self._cipher is None or not claimed.secrets:
            raise SecretUnreadable("AES_SECRETS_KEY isn't set")
        newest, *earlier = claimed.secrets
        found = [self._cipher.decrypt(newest.ciphertext, context=newest.context)]
        for secret in earlier:
            try:
                found.append(self._cipher.decrypt(secret.ciphertext, context=secret.context))
            except SecretUnreadable:
                # Older secrets only add signatures, so receivers that know the newest secret still accept the delivery.
                continue
        return found
