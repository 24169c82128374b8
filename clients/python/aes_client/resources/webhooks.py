"""Webhooks: addresses that events are sent to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aes_client.flows import Emitting
from aes_client.models import Delivery, IssuedWebhookReply, Webhook
from aes_client.requests import Request, nothing, one, path_of
from aes_client.resource import R, Resource, iteration, operation

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from aes_client import params


class Webhooks(Resource[R]):
    """``client.webhooks``. ``aes_client.verify_webhook`` checks what a receiver gets."""

    @operation
    def create(self, **webhook: Unpack[params.CreateWebhookBody]) -> Request[IssuedWebhookReply]:
        """Makes a webhook; its ``secret`` is shown this once."""
        return Request("POST", "/webhooks/", one(IssuedWebhookReply), body=dict(webhook))

    @operation
    def get(self, webhook_id: str) -> Request[Webhook]:
        return Request("GET", _path(webhook_id), one(Webhook))

    @iteration
    def list(self) -> Emitting[Webhook]:
        """Yields webhooks, newest first."""
        yield from self._pages("/webhooks/", "webhooks", Webhook, {})

    @operation
    def update(self, webhook_id: str, **changes: Unpack[params.UpdateWebhookBody]) -> Request[Webhook]:
        return Request("PATCH", _path(webhook_id), one(Webhook), body=dict(changes))

    @operation
    def delete(self, webhook_id: str) -> Request[None]:
        return Request("DELETE", _path(webhook_id), nothing, repeat="gone_is_done")

    @operation
    def rotate(self, webhook_id: str, **rotation: Unpack[params.RotateWebhookBody]) -> Request[IssuedWebhookReply]:
        """Gives the webhook a new secret; the old one signs along for a grace period."""
        return Request("POST", f"{_path(webhook_id)}rotate/", one(IssuedWebhookReply), body=dict(rotation))

    @operation
    def test(self, webhook_id: str) -> Request[Delivery]:
        """Sends an event ``webhook.test``."""
        return Request("POST", f"{_path(webhook_id)}test/", one(Delivery))

    @iteration
    def deliveries(self, webhook_id: str) -> Emitting[Delivery]:
        """Yields deliveries, newest first."""
        yield from self._pages(f"{_path(webhook_id)}deliveries/", "deliveries", Delivery, {})

    @operation
    def redeliver(self, webhook_id: str, delivery_id: str) -> Request[Delivery]:
        """Delivers an event again."""
        path = _path(webhook_id) + path_of("deliveries/{delivery}/redeliver/", delivery=delivery_id)
        return Request("POST", path, one(Delivery))


def _path(webhook_id: str) -> str:
    return path_of("/webhooks/{webhook}/", webhook=webhook_id)
