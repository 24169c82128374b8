"""Delivers events to one webhook."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import structlog

from libs.contracts.identifiers import new_id
from libs.fairness import FairSemaphore
from services.timeline.domain.deliveries import Answer, AttemptOutcome, DueDelivery, outcome_of, pending_delivery
from services.timeline.domain.ports import ClaimedWebhook, Timeline, WebhookQueue
from services.timeline.use_cases.delivering.attempts import WebhookAttempts

_log = structlog.get_logger("webhooks")
PICKED_UP: Final = 200
"""The maximum number of events for which deliveries are created at once."""
CHAINS: Final = 16
"""The maximum number of chains that one webhook sends concurrently. ``Delivery`` describes chains."""
CHAINS_OF_FAILING: Final = 4
"""The same maximum after a failed attempt. A low number keeps a hanging endpoint from holding many permits."""
# More chains are loaded than are sent, so that attempts needn't wait for the database.
_LOADED: Final = 64
# The time within which changes to a hanging webhook are noticed.
_CHECK_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class DeliveryTools:
    """The dependencies that webhooks share. ``permits`` limits concurrent attempts per process and company."""

    queue: WebhookQueue
    timeline: Timeline
    attempts: WebhookAttempts
    permits: FairSemaphore
    now: Callable[[], datetime]


@dataclass(slots=True)
class _Chain:
    """A chain that is being sent. ``outcomes`` haven't been recorded yet."""

    task: asyncio.Task[None]
    outcomes: list[AttemptOutcome] = field(default_factory=list)


class WebhookDelivery:
    """Creates and sends a webhook's deliveries until no work remains.

    If an attempt is made but not recorded, the event is sent again with the same ``webhook-id``.
    """

    def __init__(self, tools: DeliveryTools, worker_id: str, webhook_id: str) -> None:
        self._tools = tools
        self._worker_id = worker_id
        self._webhook_id = webhook_id
        self._claimed: ClaimedWebhook | None = None
        self._chains: dict[str, _Chain] = {}
        self._slots = asyncio.Semaphore(CHAINS)
        self._under_way = 0
        self._failing = False
        self._draining = False
        self._news = asyncio.Event()

    def drain(self) -> None:
        """Starts no more attempts, so that ``run`` returns once the running attempts have ended."""
        self._draining = True
        self._news.set()

    async def run(self) -> None:
        """Delivers until there's no work, or until the webhook is disabled, deleted or claimed by another worker."""
        try:
            while await self._turn():
                with suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK_SECONDS):
                        await self._news.wait()
                self._news.clear()
        finally:
            await self._cancel()

    async def _turn(self) -> bool:
        """Records outcomes, creates deliveries and starts attempts. Returns False if no work remains."""
        if not await self._record():
            return False
        if self._draining:
            return bool(self._chains)
        self._claimed = claimed = await self._tools.queue.claimed(
            self._worker_id, self._webhook_id, now=self._tools.now()
        )
        if claimed is None:
            return False
        if not self._chains:
            self._failing = claimed.is_failing
        if claimed.is_resting(self._tools.now()):
            await self._start(claimed)
            return bool(self._chains)
        if more := await self._send_due(claimed):
            self._news.set()
        return more or bool(self._chains)

    async def _send_due(self, claimed: ClaimedWebhook) -> bool:
        """Starts due deliveries. Creates more, unless several chains fail. Returns whether there are more events."""
        if self._failing:
            await self._start(claimed)
            if self._chains and claimed.several_fail:
                return False
        more = await self._pick_up(claimed) if claimed.has_room else False
        await self._start(claimed)
        return more

    async def _pick_up(self, claimed: ClaimedWebhook) -> bool:
        """Creates deliveries for new events, and advances the cursor. Returns whether there are more events."""
        tools, webhook = self._tools, claimed.webhook
        # Reads the head first, because everything up to the head is readable.
        head = await tools.timeline.head(webhook.company_id)
        if head <= claimed.cursor:
            return False
        page = await tools.timeline.page(webhook.wanted, after=claimed.cursor, limit=PICKED_UP)
        now = tools.now()
        found = [pending_delivery(new_id(), webhook.id, event, now) for event in page.events]
        cursor = page.next if page.has_more else max(head, page.next)
        return await tools.queue.pick_up(self._worker_id, claimed, found, cursor=cursor) and page.has_more

    async def _start(self, claimed: ClaimedWebhook) -> None:
        free = (CHAINS_OF_FAILING if self._failing else _LOADED) - len(self._chains)
        if free <= 0:
            return
        due = await self._tools.queue.due(claimed, now=self._tools.now(), without=self._chains.keys(), chains=free)
        for deliveries in due:
            sending = self._send(claimed.webhook.company_id, deliveries)
            task = asyncio.create_task(sending, name=f"webhook.{self._webhook_id}.chain")
            self._chains[deliveries[0].chain] = _Chain(task)
            task.add_done_callback(lambda _: self._news.set())

    async def _send(self, company_id: str, deliveries: Sequence[DueDelivery]) -> None:
        for delivery in deliveries:
            async with self._slots:
                if self._failing and self._under_way >= CHAINS_OF_FAILING:
                    # The delivery stays due and will be loaded again.
                    return
                self._under_way += 1
                try:
                    answer = await self._permitted(company_id, delivery)
                finally:
                    self._under_way -= 1
            if answer is None:
                return
            outcome = outcome_of(delivery, answer, self._tools.now())
            self._failing = not answer.accepted
            self._chains[delivery.chain].outcomes.append(outcome)
            self._news.set()
            if not answer.accepted:
                # Recording the outcome decides whether the chain continues, since a 410 disables the webhook.
                return

    async def _permitted(self, company_id: str, delivery: DueDelivery) -> Answer | None:
        """Makes an attempt once a permit is free. Returns None if the delivery must no longer be sent."""
        async with self._tools.permits.acquire(company_id):
            # Reads the webhook again, since the wait may have been long.
            claimed = self._claimed
            return None if self._draining or claimed is None else await self._attempt(claimed, delivery)

    async def _attempt(self, claimed: ClaimedWebhook, delivery: DueDelivery) -> Answer:
        if delivery.event is None:
            return Answer(None, "the event is no longer stored")
        return await self._tools.attempts.make(claimed, delivery, self._tools.now())

    async def _record(self) -> bool:
        """Stores outcomes and drops finished chains. Returns False if another worker has the webhook now."""
        ended = [name for name, chain in self._chains.items() if chain.task.done()]
        outcomes = [outcome for chain in self._chains.values() for outcome in chain.outcomes]
        for chain in self._chains.values():
            chain.outcomes = []
        if outcomes:
            assert self._claimed is not None
            now = self._tools.now()
            if not await self._tools.queue.record(self._worker_id, self._claimed.webhook, outcomes, now=now):
                _log.info("webhook.lost", webhook_id=self._webhook_id, outcomes=len(outcomes))
                return False
        for name in ended:
            self._chains.pop(name).task.result()
        return True

    async def _cancel(self) -> None:
        for chain in self._chains.values():
            chain.task.cancel()
        await asyncio.gather(*(chain.task for chain in self._chains.values()), return_exceptions=True)
