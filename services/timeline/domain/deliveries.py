"""Deliveries of events to webhooks: their states and retries, and when a failing webhook is disabled."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

import orjson

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.resources import webhooks
from libs.contracts.resources.webhooks import TEST_EVENT
from libs.contracts.timeline import RecordedEvent

ATTEMPT_SECONDS: Final = 15.0
RETRY_DELAYS: Final = tuple(
    timedelta(seconds=seconds) for seconds in (5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000)
)
GIVE_UP_AFTER: Final = timedelta(days=5)
# Longer than any pause between two attempts. A failure starts a new streak if the previous one is older than this.
_STREAK_PAUSE: Final = timedelta(days=1)
# A failing webhook pauses for an eighth of the time between its first and last failure.
REST_DIVISOR: Final = 8
LONGEST_REST: Final = timedelta(seconds=30)
LONGEST_RESPONSE: Final = 2048
"""The maximum number of bytes of an endpoint's response that are stored."""
_GONE: Final = 410


class DeliveryStatus(StrEnum):
    PENDING = "pending"
    DELIVERED = "delivered"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """The delivery of an event to a webhook.

    Deliveries of one ``chain`` are sent one at a time. Events of the same subject share a chain, but each test and each
    redelivery has its own. ``next_attempt_at`` is None while an earlier delivery of the chain is pending.
    """

    id: str
    webhook_id: str
    event_id: str
    type: str
    chain: str
    position: int
    status: DeliveryStatus = DeliveryStatus.PENDING
    attempts: int = 0
    next_attempt_at: datetime | None
    last_status: int | None = None
    last_response: str | None = None
    created_at: datetime

    def public(self) -> webhooks.Delivery:
        return webhooks.Delivery.model_validate(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class DueDelivery:
    """A delivery that is due. ``event`` is JSON, or None if the timeline no longer has the event."""

    id: str
    event_id: str
    type: str
    chain: str
    attempts: int
    time: str
    event: bytes | None

    @property
    def body(self) -> bytes:
        assert self.event is not None
        return orjson.dumps({"type": self.type, "timestamp": self.time, "data": orjson.Fragment(self.event)})


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of an attempt. ``text`` is the start of the response, or the reason why there was none."""

    status: int | None
    text: str

    @property
    def accepted(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOutcome:
    """The state of a delivery after an attempt. ``attempts`` includes that attempt."""

    delivery_id: str
    chain: str
    status: DeliveryStatus
    attempts: int
    next_attempt_at: datetime | None
    answer: Answer

    @property
    def settled(self) -> bool:
        """Whether the delivery needs no further attempt."""
        return self.status is not DeliveryStatus.PENDING


def outcome_of(delivery: DueDelivery, answer: Answer, now: datetime) -> AttemptOutcome:
    retry_at = None if answer.accepted else _retry_at(delivery, answer, now)
    settled = DeliveryStatus.DELIVERED if answer.accepted else DeliveryStatus.FAILED
    return AttemptOutcome(
        delivery_id=delivery.id,
        chain=delivery.chain,
        status=settled if retry_at is None else DeliveryStatus.PENDING,
        attempts=delivery.attempts + 1,
        next_attempt_at=retry_at,
        answer=answer,
    )


def _retry_at(delivery: DueDelivery, answer: Answer, now: datetime) -> datetime | None:
    """Returns when to retry a failed attempt, or None to give up. A test isn't retried."""
    final = delivery.event is None or delivery.type == TEST_EVENT or answer.status == _GONE
    return None if final or delivery.attempts >= len(RETRY_DELAYS) else now + RETRY_DELAYS[delivery.attempts]


@dataclass(frozen=True, slots=True)
class FailureStreak:
    """The time from the first to the last failure, without a success in between."""

    since: datetime | None = None
    last: datetime | None = None

    def is_fresh(self, now: datetime) -> bool:
        """Returns whether the last failure is too recent to try again."""
        if self.since is None or self.last is None:
            return False
        return now < self.last + min((self.last - self.since) / REST_DIVISOR, LONGEST_REST)

    def after(self, outcomes: Sequence[AttemptOutcome], now: datetime) -> "FailureStreak":
        if any(each.status is DeliveryStatus.DELIVERED for each in outcomes):
            return FailureStreak()
        goes_on = self.last is not None and now - self.last <= _STREAK_PAUSE
        return FailureStreak(self.since if goes_on else now, now)

    def verdict(self, outcomes: Sequence[AttemptOutcome], now: datetime) -> DisabledReason | None:
        """Returns the reason to disable the webhook, or None to keep it enabled. The streak includes ``outcomes``."""
        if any(each.answer.status == _GONE for each in outcomes):
            return DisabledReason.GONE
        return DisabledReason.UNREACHABLE if self.since is not None and now - self.since >= GIVE_UP_AFTER else None


def test_event(*, event_id: str, webhook_id: str, correlation_id: str, time: str) -> bytes:
    """Returns a test event as JSON. The timeline doesn't store it, so it has no position."""
    return orjson.dumps(
        {
            "id": event_id,
            "position": None,
            "type": TEST_EVENT,
            "source": "/aes/timeline",
            "subject": webhook_id,
            "sequence": 1,
            "time": time,
            "correlation_id": correlation_id,
            "causation_id": None,
            "data": {"webhook_id": webhook_id},
        }
    )


def pending_delivery(delivery_id: str, webhook_id: str, event: RecordedEvent, now: datetime) -> Delivery:
    return Delivery(
        id=delivery_id,
        webhook_id=webhook_id,
        event_id=event.id,
        type=event.type,
        chain=event.subject,
        position=event.position,
        next_attempt_at=now,
        created_at=now,
    )
