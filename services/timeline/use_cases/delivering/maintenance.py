"""Maintains webhooks: deletes old deliveries, re-encrypts secrets and measures the backlog."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog

from libs.secrets import SecretCipher
from services.timeline.adapters import delivery_metrics
from services.timeline.adapters.postgres.webhook_maintenance import PostgresWebhookMaintenance

_log = structlog.get_logger("webhooks")
KEEP: Final = timedelta(days=7)
# As long as the timeline keeps events by default.
KEEP_PENDING: Final = timedelta(days=30)
_BATCH: Final = 5_000


@dataclass(frozen=True, slots=True)
class WebhookMaintenance:
    store: PostgresWebhookMaintenance
    cipher: SecretCipher | None
    now: Callable[[], datetime]

    async def purge(self) -> int:
        """Deletes a batch of old deliveries. Returns how many were deleted."""
        return await self.store.purge(now=self.now(), keep=KEEP, keep_pending=KEEP_PENDING, limit=_BATCH)

    async def measure(self) -> None:
        delivery_metrics.waiting(await self.store.backlog(now=self.now()))

    async def reencrypt(self) -> int:
        """Re-encrypts secrets under the newest key. Returns how many were changed."""
        if self.cipher is None:
            return 0
        rotation = await self.store.reencrypt(self.cipher)
        for context, problem in rotation.unreadable:
            _log.error("webhook.secret_unreadable", place=context, problem=str(problem))
        return rotation.changed
