"""Finds webhooks that have work, and delivers events to them."""

import asyncio
from typing import Final

import structlog

from libs.service_defaults.repeating import repeat_while_busy
from services.timeline.use_cases.delivering.delivery import DeliveryTools, WebhookDelivery

_log = structlog.get_logger("webhooks")
POLL_SECONDS: Final = 0.2
# While no webhook has work, the pauses between checks grow to at most this length.
_REST_SECONDS: Final = 1.0
_MORE: Final = 2
LEASE_SECONDS: Final = 10.0
MOST_WEBHOOKS: Final = 1_000
"""The maximum number of webhooks to which a process delivers concurrently."""
_CLAIMED_AT_ONCE: Final = 50
# The pause after an internal failure, such as a secret that can't be decrypted.
_PAUSE_SECONDS: Final = 5.0


class WebhookWorker:
    """Delivers events to webhooks. Any number of workers may run, because each webhook belongs to one at a time."""

    def __init__(self, tools: DeliveryTools, worker_id: str) -> None:
        self._tools = tools
        self._worker_id = worker_id
        self._running: dict[str, WebhookDelivery] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended: set[str] = set()
        self._stopping = False
        self._has_lease = False

    async def renew(self) -> None:
        """Renews this worker's lease until cancelled."""
        while True:
            try:
                await self._tools.queue.renew(self._worker_id, LEASE_SECONDS)
            except Exception as problem:
                _log.warning("webhooks.lease_not_renewed", problem=repr(problem))
            await asyncio.sleep(LEASE_SECONDS / 4)

    async def run(self) -> None:
        """Claims webhooks until cancelled. Raises database errors, after which ``run`` can be called again."""
        await self._tools.queue.renew(self._worker_id, LEASE_SECONDS)
        self._has_lease = True
        await repeat_while_busy(self._poll_and_pace, POLL_SECONDS, longest=_REST_SECONDS, full=_MORE)

    async def poll(self) -> int:
        """Releases webhooks without work, and claims others with work. Returns how many were claimed."""
        ended = tuple(self._ended)
        if ended:
            await self._tools.queue.release(self._worker_id, ended)
            self._ended.difference_update(ended)
        room = min(_CLAIMED_AT_ONCE, MOST_WEBHOOKS - len(self._running))
        if self._stopping or room <= 0:
            return 0
        claimed = await self._tools.queue.claim(self._worker_id, now=self._tools.now(), limit=room)
        for webhook_id in claimed:
            self._begin(webhook_id)
        return len(claimed)

    async def _poll_and_pace(self) -> int:
        """Polls. The result sets the pause: none after a claim, and only a short one while deliveries are running."""
        return _MORE if await self.poll() else int(bool(self._running))

    async def idle(self) -> None:
        """Waits until no deliveries are running."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def stop(self, seconds: float) -> None:
        """Stops within ``seconds``. Records what has been sent, and leaves the rest to other workers."""
        self._stopping = True
        for delivery in self._running.values():
            delivery.drain()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._has_lease:
            await self._tools.queue.end(self._worker_id)

    def _begin(self, webhook_id: str) -> None:
        self._running[webhook_id] = delivery = WebhookDelivery(self._tools, self._worker_id, webhook_id)
        task = asyncio.create_task(self._deliver(webhook_id, delivery), name=f"webhook.{webhook_id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _deliver(self, webhook_id: str, delivery: WebhookDelivery) -> None:
        try:
            await delivery.run()
        except Exception as problem:
            _log.error("webhook.failed", webhook_id=webhook_id, problem=repr(problem))
            await asyncio.sleep(0 if self._stopping else _PAUSE_SECONDS)
        finally:
            del self._running[webhook_id]
            self._ended.add(webhook_id)
