"""Webhooks in memory behind the ports of the real ones, and endpoints that answer as they are told."""

import asyncio
import base64
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.errors import Conflict
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.contracts.resources.webhooks import SealedSecret, WebhookStatus, secret_context
from libs.secrets import SecretCipher
from services.timeline.domain.deliveries import (
    Answer,
    AttemptOutcome,
    Delivery,
    DeliveryStatus,
    DueDelivery,
    FailureStreak,
)
from services.timeline.domain.ports import ClaimedWebhook
from services.timeline.domain.webhooks import Webhook, WebhookSecret
from tests.support.pages import page_within
from tests.support.timeline import FakeTimeline

CIPHER = SecretCipher([b"k" * 32])
_CHAIN_LENGTH = 5


def sealed(secret: str, webhook_id: str) -> SealedSecret:
    """The secret as the gateway sends it."""
    secret_id = new_id()
    ciphertext = CIPHER.encrypt(secret, context=secret_context(webhook_id, secret_id))
    return SealedSecret(id=secret_id, ciphertext=base64.b64encode(ciphertext).decode())


@dataclass
class _Row:
    webhook: Webhook
    cursor: int
    secrets: list[WebhookSecret]
    worker_id: str | None = None
    streak: FailureStreak = field(default_factory=FailureStreak)


class FakeWebhooks:
    """Reader, writer and queue. ``given_up``: webhooks that the queue disabled, and why."""

    def __init__(self, timeline: FakeTimeline) -> None:
        self.rows: dict[str, _Row] = {}
        self.kept: dict[str, Delivery] = {}
        self.own_events: dict[str, bytes] = {}
        self.given_up: list[tuple[DisabledReason, str]] = []
        self.leases: set[str] = set()
        self.timeline = timeline

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None:
        row = self.rows.get(webhook_id)
        return row.webhook if row is not None and row.webhook.company_id == company_id else None

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        found = [
            row.webhook
            for row in reversed(self.rows.values())
            if row.webhook.company_id == reader.company_id and reader.may_read_of(row.webhook.user_id)
        ]
        return page_within(found, limit=limit, offset=offset, cursor=cursor)

    async def add(self, webhook: Webhook, secret: WebhookSecret, *, most: int) -> None:
        if sum(row.webhook.company_id == webhook.company_id for row in self.rows.values()) >= most:
            raise Conflict(f"Your company already has {most} webhooks, which is the maximum. Delete one first.")
        self.rows[webhook.id] = _Row(webhook, await self.timeline.head(webhook.company_id), [secret])

    async def lock(self, company_id: str, webhook_id: str) -> Webhook | None:
        return await self.webhook(company_id, webhook_id)

    async def save(self, before: Webhook, after: Webhook) -> None:
        row = self.rows[after.id]
        row.webhook = after
        if after.failing_since is None:
            row.streak = FailureStreak()
        if (before.status, after.status) == (WebhookStatus.DISABLED, WebhookStatus.ENABLED):
            self._head_due(after.id, {each.chain for each in self._pending(after.id)}, after.updated_at)

    async def delete(self, webhook: Webhook) -> None:
        del self.rows[webhook.id]

    async def replace_secret(self, secret: WebhookSecret, *, old_expires_at: datetime, most: int) -> bool:
        row = self.rows[secret.webhook_id]
        live = [each for each in row.secrets if each.expires_at is None or each.expires_at > secret.created_at]
        if len(live) >= most:
            return False
        row.secrets = [
            secret,
            *(replace(each, expires_at=old_expires_at) if each.expires_at is None else each for each in live),
        ]
        return True

    async def is_revoked(self, key_id: str) -> bool:
        return False

    async def deliveries(
        self, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        found = [each for each in reversed(self.kept.values()) if each.webhook_id == webhook_id]
        found.sort(key=lambda each: (each.created_at, each.id), reverse=True)
        return page_within(found, limit=limit, offset=offset, cursor=cursor)

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None:
        found = self.kept.get(delivery_id)
        return found if found is not None and found.webhook_id == webhook_id else None

    async def add_test(self, delivery: Delivery, event: bytes) -> None:
        self.kept[delivery.id] = delivery
        self.own_events[delivery.id] = event

    async def deliver_again(self, webhook_id: str, delivery_id: str, *, now: datetime) -> Delivery | None:
        before = await self.delivery(webhook_id, delivery_id)
        if before is None:
            return None
        again = replace(before, status=DeliveryStatus.PENDING, attempts=0, next_attempt_at=now, chain=delivery_id)
        self.kept[delivery_id] = again
        if before.status is DeliveryStatus.PENDING:
            self._head_due(webhook_id, {before.chain}, now, waiting_only=True)
        return again

    async def renew(self, worker_id: str, lease_seconds: float) -> None:
        self.leases.add(worker_id)

    def expire(self, worker_id: str) -> None:
        """The worker is gone."""
        self.leases.discard(worker_id)

    async def claim(self, worker_id: str, *, now: datetime, limit: int) -> Sequence[str]:
        turns: dict[str, int] = {}
        ready = []
        for row in sorted(self.rows.values(), key=lambda each: each.webhook.id):
            if row.worker_id not in self.leases and await self._has_work(row, now):
                turn = turns[row.webhook.company_id] = turns.get(row.webhook.company_id, 0) + 1
                ready.append((turn, row.webhook.id, row))
        claimed = [row for _, _, row in sorted(ready, key=lambda each: each[:2])[:limit]]
        for row in claimed:
            row.worker_id = worker_id
        return [row.webhook.id for row in claimed]

    async def _has_work(self, row: _Row, now: datetime) -> bool:
        if row.webhook.status is not WebhookStatus.ENABLED:
            return False
        due = [each for each in self._pending(row.webhook.id) if each.next_attempt_at and each.next_attempt_at <= now]
        if self._several_fail(row.webhook.id) and row.streak.is_fresh(now):
            return any(map(_is_requested, due))
        return bool(due) or row.cursor < await self.timeline.head(row.webhook.company_id)

    async def release(self, worker_id: str, webhook_ids: Collection[str]) -> None:
        for webhook_id in webhook_ids:
            row = self.rows.get(webhook_id)
            if row is not None and row.worker_id == worker_id:
                row.worker_id = None

    async def end(self, worker_id: str) -> None:
        await self.release(worker_id, list(self.rows))
        self.leases.discard(worker_id)

    async def claimed(self, worker_id: str, webhook_id: str, *, now: datetime) -> ClaimedWebhook | None:
        row = self._held(worker_id, webhook_id)
        if row is None or row.webhook.status is not WebhookStatus.ENABLED:
            return None
        signing = [each for each in row.secrets if each.expires_at is None or each.expires_at > now]
        return ClaimedWebhook(
            webhook=row.webhook,
            cursor=row.cursor,
            secrets=signing,
            has_room=True,
            streak=row.streak,
            several_fail=self._several_fail(row.webhook.id),
        )

    async def pick_up(self, worker_id: str, claimed: ClaimedWebhook, found: Sequence[Delivery], *, cursor: int) -> bool:
        row = self._held(worker_id, claimed.webhook.id)
        if row is None or row.cursor != claimed.cursor:
            return False
        row.cursor = cursor
        for delivery in found:
            waits = any(each.chain == delivery.chain for each in self._pending(claimed.webhook.id))
            self.kept[delivery.id] = replace(delivery, next_attempt_at=None) if waits else delivery
        return True

    async def due(
        self, claimed: ClaimedWebhook, *, now: datetime, without: Collection[str], chains: int
    ) -> Sequence[Sequence[DueDelivery]]:
        pending = self._pending(claimed.webhook.id)
        heads = sorted(
            (
                each
                for each in pending
                if each.next_attempt_at
                and each.next_attempt_at <= now
                and (not claimed.is_resting(now) or _is_requested(each))
            ),
            key=lambda each: (each.next_attempt_at, each.position),
            reverse=claimed.is_failing,
        )
        wanted = [each.chain for each in heads if each.chain not in without][:chains]
        events = {each.position: each for each in self.timeline.events.get(claimed.webhook.company_id, [])}
        found = []
        for chain in wanted:
            first = sorted((each for each in pending if each.chain == chain), key=lambda each: each.position)
            found.append([self._due(each, events) for each in first[:_CHAIN_LENGTH]])
        return found

    def _due(self, delivery: Delivery, events: Mapping[int, object]) -> DueDelivery:
        event = events.get(delivery.position)
        rendered = event.to_json() if event is not None else None  # type: ignore[attr-defined]
        return DueDelivery(
            id=delivery.id,
            event_id=delivery.event_id,
            type=delivery.type,
            chain=delivery.chain,
            attempts=delivery.attempts,
            time=getattr(event, "time", ""),
            event=self.own_events.get(delivery.id, rendered),
        )

    async def record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], *, now: datetime
    ) -> bool:
        row = self._held(worker_id, webhook.id)
        if row is None:
            return False
        for each in outcomes:
            delivery = self.kept[each.delivery_id]
            if delivery.status is DeliveryStatus.PENDING and delivery.attempts == each.attempts - 1:
                self.kept[each.delivery_id] = replace(
                    delivery,
                    status=each.status,
                    attempts=each.attempts,
                    next_attempt_at=each.next_attempt_at,
                    last_status=each.answer.status,
                    last_response=each.answer.text,
                )
        self._head_due(webhook.id, {each.chain for each in outcomes if each.settled}, now, waiting_only=True)
        row.streak = row.streak.after(outcomes, now)
        row.webhook = replace(row.webhook, failing_since=row.streak.since)
        reason = row.streak.verdict(outcomes, now)
        if reason is not None and row.webhook.status is WebhookStatus.ENABLED:
            self.disable(webhook.id, reason)
        return True

    def disable(self, webhook_id: str, reason: DisabledReason) -> None:
        row = self.rows[webhook_id]
        row.webhook = replace(row.webhook, status=WebhookStatus.DISABLED, disabled_reason=reason)
        self.given_up.append((reason, webhook_id))

    def _held(self, worker_id: str, webhook_id: str) -> _Row | None:
        row = self.rows.get(webhook_id)
        return row if row is not None and row.worker_id == worker_id else None

    def _several_fail(self, webhook_id: str) -> bool:
        """Only the first one of a chain has been attempted and is to be attempted again."""
        return sum(each.attempts > 0 for each in self._pending(webhook_id)) > 1

    def _pending(self, webhook_id: str) -> list[Delivery]:
        mine = (each for each in self.kept.values() if each.webhook_id == webhook_id)
        return [each for each in mine if each.status is DeliveryStatus.PENDING]

    def _head_due(self, webhook_id: str, chains: set[str], now: datetime, *, waiting_only: bool = False) -> None:
        for chain in chains:
            waiting = [each for each in self._pending(webhook_id) if each.chain == chain]
            if waiting:
                head = min(waiting, key=lambda each: each.position)
                if head.next_attempt_at is None or not waiting_only:
                    self.kept[head.id] = replace(head, next_attempt_at=now)


def _is_requested(delivery: Delivery) -> bool:
    return delivery.chain == delivery.id and delivery.attempts == 0


@dataclass(frozen=True)
class Received:
    url: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def event_id(self) -> str:
        return self.headers["webhook-id"]


@dataclass
class FakeEndpoints:
    """Endpoints of all webhooks. ``answer`` may raise instead of answering."""

    received: list[Received] = field(default_factory=list)
    answer: Callable[[Received], int | None] = lambda _: 200
    hanging: set[str] = field(default_factory=set)
    refused: dict[str, Exception] = field(default_factory=dict)
    let_go: asyncio.Event = field(default_factory=asyncio.Event)
    under_way: int = 0

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        received = Received(url, dict(headers), body)
        self.received.append(received)
        self.under_way += 1
        try:
            await asyncio.sleep(0)
            if url in self.hanging:
                await self.let_go.wait()
                return Answer(None, "no response within 15 seconds")
            status = self.answer(received)
            return Answer(status, "answered" if status is not None else "the host can't be reached")
        finally:
            self.under_way -= 1

    async def check(self, url: str) -> None:
        if url in self.refused:
            raise self.refused[url]
