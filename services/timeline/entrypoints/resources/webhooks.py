"""Handles commands about webhooks and their deliveries, and serves reads of them."""

from fastapi import APIRouter, FastAPI

from libs.contracts.resources.webhooks import (
    CreateWebhook,
    DeleteWebhook,
    Delivery,
    DeliveryPage,
    Redeliver,
    RotateWebhookSecret,
    SendTestEvent,
    UpdateWebhook,
    Webhook,
    WebhookPage,
)
from libs.eventing import CommandRouter
from libs.service_defaults import Caller, Cursor, Limit, Offset
from services.timeline.use_cases.webhooks import Webhooks


def serve_webhooks(commands: CommandRouter, http: FastAPI, webhooks: Webhooks) -> None:
    commands.handle_prepared(CreateWebhook, webhooks.check_new, webhooks.create)
    commands.handle_prepared(UpdateWebhook, webhooks.check_change, webhooks.change)
    commands.handle(DeleteWebhook, webhooks.delete)
    commands.handle(RotateWebhookSecret, webhooks.rotate_secret)
    commands.handle(SendTestEvent, webhooks.send_test)
    commands.handle(Redeliver, webhooks.deliver_again)
    router = APIRouter(prefix="/internal/webhooks")

    @router.get("")
    async def list_webhooks(who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None) -> WebhookPage:
        page = await webhooks.page(who, limit=limit, offset=offset, cursor=cursor)
        return WebhookPage(webhooks=[each.public() for each in page.items], **page.facts)

    @router.get("/{webhook_id}")
    async def get_webhook(webhook_id: str, who: Caller) -> Webhook:
        return (await webhooks.get(who, webhook_id)).public()

    @router.get("/{webhook_id}/deliveries")
    async def list_deliveries(
        webhook_id: str, who: Caller, limit: Limit = 50, offset: Offset = 0, cursor: Cursor = None
    ) -> DeliveryPage:
        page = await webhooks.deliveries(who, webhook_id, limit=limit, offset=offset, cursor=cursor)
        return DeliveryPage(deliveries=[each.public() for each in page.items], **page.facts)

    @router.get("/{webhook_id}/deliveries/{delivery_id}")
    async def get_delivery(webhook_id: str, delivery_id: str, who: Caller) -> Delivery:
        return (await webhooks.delivery(who, webhook_id, delivery_id)).public()

    http.include_router(router)
