"""Lists deliveries, sends test events, and delivers again."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from libs.contracts.api.pages import Page
from libs.contracts.errors import Conflict, NotFound
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import Identity
from libs.contracts.timestamps import format_time
from services.gateway.domain.idempotency import KeyReused, OtherBody, Write
from services.gateway.domain.webhook_deliveries import Delivery, DeliveryStatus, test_event
from services.gateway.domain.webhook_ports import WebhookStore
from services.gateway.domain.webhooks import TEST_EVENT, Webhook, WebhookStatus
from services.gateway.use_cases.change_webhooks import GetWebhook


@dataclass(frozen=True, slots=True)
class ListDeliveries:
    store: WebhookStore

    async def __call__(
        self, reader: Identity, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        webhook = await GetWebhook(self.store)(reader, webhook_id)
        return await self.store.deliveries(webhook.id, limit=limit, offset=offset, cursor=cursor)


@dataclass(frozen=True, slots=True)
class SendTestEvent:
    """Has one event of type ``webhook.test`` delivered, once, whatever types the webhook wants."""

    store: WebhookStore
    now: Callable[[], datetime]

    async def __call__(self, write: Write, webhook_id: str) -> Delivery:
        webhook = await _enabled(self.store, write.identity, webhook_id)
        delivery_id, event_id, now = new_id(), new_id(), self.now()
        event = test_event(
            event_id=event_id, webhook_id=webhook.id, correlation_id=write.correlation_id, time=format_time(now)
        )
        delivery = Delivery(
            id=delivery_id,
            webhook_id=webhook.id,
            event_id=event_id,
            type=TEST_EVENT,
            chain=delivery_id,
            position=0,
            status=DeliveryStatus.PENDING,
            attempts=0,
            next_attempt_at=now,
            last_status=None,
            last_response=None,
            created_at=now,
        )
        try:
            await self.store.add_test(delivery, event, write)
        except KeyReused as reuse:
            return await _repeated(self.store, write, webhook, reuse)
        return delivery


@dataclass(frozen=True, slots=True)
class DeliverAgain:
    """Begins a delivery anew, pending or settled, apart from the order of its subject."""

    store: WebhookStore
    now: Callable[[], datetime]

    async def __call__(self, write: Write, webhook_id: str, delivery_id: str) -> Delivery:
        webhook = await _enabled(self.store, write.identity, webhook_id)
        delivery = await self.store.delivery(webhook.id, delivery_id) if is_id(delivery_id) else None
        if delivery is None:
            raise NotFound("There is no delivery with this id.")
        try:
            await self.store.deliver_again(delivery, write, now=self.now())
        except KeyReused as reuse:
            return await _repeated(self.store, write, webhook, reuse)
        return await self.store.delivery(webhook.id, delivery_id) or delivery


async def _enabled(store: WebhookStore, writer: Identity, webhook_id: str) -> Webhook:
    webhook = await GetWebhook(store)(writer, webhook_id)
    if not writer.may_write_of(webhook.user_id):
        raise NotFound("There is no webhook with this id.")
    if webhook.status is not WebhookStatus.ENABLED:
        raise Conflict("The webhook is disabled: enable it first.")
    return webhook


async def _repeated(store: WebhookStore, write: Write, webhook: Webhook, reuse: KeyReused) -> Delivery:
    if write.request is None or write.request.body_hash != reuse.body_hash:
        raise OtherBody from None
    delivery = await store.delivery(webhook.id, reuse.entity_id)
    if delivery is None:
        raise Conflict("The delivery of this request is not kept any more.")
    return delivery
