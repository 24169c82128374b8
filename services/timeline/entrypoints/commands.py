"""Commands on ``timeline-commands``: each ends in its use case's event, or in a rejection."""

from libs.contracts.resources.webhooks import (
    CreateWebhook,
    DeleteWebhook,
    Redeliver,
    RotateWebhookSecret,
    SendTestEvent,
    UpdateWebhook,
)
from libs.eventing import CommandRouter
from services.timeline.use_cases.webhooks import Webhooks


def register_commands(router: CommandRouter, webhooks: Webhooks) -> None:
    router.handle_prepared(CreateWebhook, webhooks.check_new, webhooks.create)
    router.handle_prepared(UpdateWebhook, webhooks.check_change, webhooks.change)
    router.handle(DeleteWebhook, webhooks.delete)
    router.handle(RotateWebhookSecret, webhooks.rotate_secret)
    router.handle(SendTestEvent, webhooks.send_test)
    router.handle(Redeliver, webhooks.deliver_again)
