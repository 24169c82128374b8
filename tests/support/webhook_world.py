"""Webhooks, their timeline and workers in memory, on a clock that stands still."""

import base64
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from standardwebhooks import Webhook as Verifier

from libs.contracts.errors import error_from
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected, Event
from libs.contracts.resources.webhooks import (
    CreateWebhook,
    Redeliver,
    RotateWebhookSecret,
    SealedSecret,
    SendTestEvent,
    UpdateWebhook,
    WebhookDeliveryRequested,
    WebhookStatus,
    secret_place,
)
from libs.fairness import FairSemaphore
from libs.secrets import SecretCipher
from services.timeline.domain.deliveries import Delivery, DeliveryStatus
from services.timeline.domain.webhooks import Webhook
from services.timeline.use_cases.delivering.attempts import WebhookAttempts
from services.timeline.use_cases.delivering.delivery import DeliveryTools
from services.timeline.use_cases.delivering.worker import WebhookWorker
from tests.support.gateway import Clock
from tests.support.timeline import FakeTimeline, event
from tests.support.timeline_service import TimelineService
from tests.support.usage import FakeUsage
from tests.support.waiting import elapse
from tests.support.webhook_fakes import CIPHER, FakeEndpoints, FakeWebhooks, NoMetrics, Received

ALL_OF_COMPANY = frozenset({"webhooks:write", "company:read"})


def caller(company: str = "company-1", user: str = "user-1", scopes: frozenset[str] = ALL_OF_COMPANY) -> Identity:
    return Identity(company_id=company, user_id=user, key_id=f"key-of-{user}", scopes=scopes)


def new_webhook_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


def sealed(secret: str, webhook_id: str) -> SealedSecret:
    """The secret as the gateway sends it."""
    secret_id = new_id()
    ciphertext = CIPHER.encrypt(secret, place=secret_place(webhook_id, secret_id))
    return SealedSecret(id=secret_id, ciphertext=base64.b64encode(ciphertext).decode())


@dataclass(frozen=True)
class IssuedWebhook:
    webhook: Webhook
    secret: str


class WebhookWorld:
    def __init__(self, *, attempts: int = 64, each: int = 32, cipher: SecretCipher | None = CIPHER) -> None:
        self.clock = Clock()
        self.timeline = FakeTimeline()
        self.store = FakeWebhooks(timeline=self.timeline)
        self.endpoints = FakeEndpoints()
        self.metrics = NoMetrics()
        self.cipher = cipher
        self.service = TimelineService(self.timeline, FakeUsage(), self.store, self.endpoints, self.clock.now)
        self.tools = DeliveryTools(
            queue=self.store,
            timeline=self.timeline,
            attempts=WebhookAttempts(self.endpoints, cipher, self.metrics),
            permits=FairSemaphore(attempts, each=each),
            now=self.clock.now,
        )
        self.worker = self.new_worker()

    def new_worker(self) -> WebhookWorker:
        return WebhookWorker(self.tools, new_id())

    async def webhook(self, *types: str, identity: Identity | None = None, url: str = "") -> IssuedWebhook:
        secret, webhook_id = new_webhook_secret(), new_id()
        command = CreateWebhook(
            url=url or f"https://{new_id()}.example/",
            event_types=types or ("*",),
            description="",
            status=WebhookStatus.ENABLED,
            secret=sealed(secret, webhook_id),
        )
        await self._dispatch(command, identity or caller(), webhook_id)
        return IssuedWebhook(self.store.rows[webhook_id].webhook, secret)

    async def change(self, webhook: Webhook, identity: Identity | None = None, **fields: Any) -> Webhook:
        await self._dispatch(UpdateWebhook(webhook_id=webhook.id, **fields), identity or caller())
        return self.store.rows[webhook.id].webhook

    async def rotate(self, webhook: Webhook, *, grace_seconds: int) -> str:
        secret = new_webhook_secret()
        stored = sealed(secret, webhook.id)
        await self._dispatch(
            RotateWebhookSecret(webhook_id=webhook.id, secret=stored, grace_seconds=grace_seconds), caller()
        )
        return secret

    async def send_test(self, webhook: Webhook) -> WebhookDeliveryRequested:
        return await self._requested(SendTestEvent(webhook_id=webhook.id))

    async def deliver_again(self, webhook: Webhook, delivery: Delivery) -> WebhookDeliveryRequested:
        return await self._requested(Redeliver(webhook_id=webhook.id, delivery_id=delivery.id))

    async def _requested(self, command: Command) -> WebhookDeliveryRequested:
        requested = await self._dispatch(command, caller())
        assert isinstance(requested, WebhookDeliveryRequested)
        return requested

    async def _dispatch(self, command: Command, identity: Identity, command_id: str | None = None) -> Event:
        event = await self.service.dispatch(command, command_id or new_id(), "label", identity)
        if isinstance(event, CommandRejected):
            raise error_from(event.error)
        return event

    async def happen(self, subject: str = "", *, times: int = 1, **fields: Any) -> list[str]:
        """Ids of new events of one subject."""
        subject = subject or new_id()
        events = [event(subject=subject, **fields) for _ in range(times)]
        await self.timeline.store(events, {})
        return [each.id for each in events]

    async def settle(self, worker: WebhookWorker | None = None) -> None:
        """Delivers what is due now."""
        worker = worker or self.worker
        await self.store.renew(worker._worker_id, 10)
        while await worker.poll():
            await worker.idle()

    async def pass_time(self, seconds: float, *, step: float = 60.0) -> None:
        end = self.clock.monotonic() + seconds
        while self.clock.monotonic() < end:
            self.clock.advance(min(step, end - self.clock.monotonic()))
            await self.settle()

    async def deliveries(self, webhook: Webhook) -> Sequence[Delivery]:
        """Oldest first."""
        found = (await self.store.deliveries(webhook.id, limit=10_000, offset=0)).items
        return sorted(found, key=lambda each: each.position)

    async def statuses(self, webhook: Webhook) -> list[DeliveryStatus]:
        return [each.status for each in await self.deliveries(webhook)]

    def received(self, webhook: Webhook) -> list[Received]:
        return [each for each in self.endpoints.received if each.url == webhook.url]

    def received_ids(self, webhook: Webhook) -> list[str]:
        return [each.event_id for each in self.received(webhook)]


def verified(received: Received, secret: str) -> dict[str, Any]:
    """The body, after its signature was found to be right. The clock of the deliveries is not looked at."""
    moment = datetime.fromtimestamp(int(received.headers["webhook-timestamp"]), UTC)
    expected = Verifier(secret).sign(received.event_id, moment, received.body.decode())
    assert expected in received.headers["webhook-signature"].split(" ")
    found: dict[str, Any] = json.loads(received.body)
    return found


async def settled() -> None:
    """Lets immediate work finish; delayed work still waits."""
    await elapse(0.01)
