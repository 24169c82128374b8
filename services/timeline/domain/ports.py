"""The timeline's interfaces to its database and to webhook endpoints."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.contracts.timeline import RecordedEvent, TimelineFilter, TimelinePage
from services.timeline.domain.deliveries import Answer, AttemptOutcome, Delivery, DueDelivery, FailureStreak
from services.timeline.domain.webhooks import Webhook, WebhookSecret


class Timeline(Protocol):
    """Reads companies' numbered logs of events.

    Positions have no gaps, and events are stored in order. So a reader at a position has seen every earlier event.
    """

    async def head(self, company_id: str) -> int:
        """Returns the company's newest position, or 0 before its first event."""

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        """Returns the newest position of each given company that has events."""

    async def newest(self, where: TimelineFilter) -> RecordedEvent | None:
        """Returns the newest event that matches the filter.

        Examines at most 5,000 of the events found through an index.
        """

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage[RecordedEvent]:
        """Returns a page of events with positions above ``after``, oldest first."""

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage[RecordedEvent]:
        """Returns a page of events before a position, by default the end of the log, newest first."""

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[RecordedEvent]:
        """Returns the turn's recorded events with sequence numbers above ``after_sequence``, in order."""


class WebhookReader(Protocol):
    """Reads webhooks and their deliveries, except those of deleted webhooks."""

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None: ...

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        """Returns a page of the webhooks that the reader may see, newest first, and their total number."""

    async def deliveries(
        self, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        """Returns a page of deliveries, newest first, and their total number."""

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None: ...


class WebhookWriter(Protocol):
    """Changes webhooks in the caller's transaction."""

    async def add(self, webhook: Webhook, secret: WebhookSecret, *, most: int) -> None:
        """Adds a webhook. Raises ``Conflict`` if the company already has ``most`` webhooks."""

    async def lock(self, company_id: str, webhook_id: str) -> Webhook | None:
        """Locks and returns the webhook, or returns None if it doesn't exist."""

    async def lock_of_key(self, key_id: str) -> Sequence[Webhook]:
        """Locks and returns all webhooks that depend on the key."""

    async def save(self, before: Webhook, after: Webhook) -> None:
        """Stores the new state of a locked webhook. If it has just been enabled, its pending deliveries become due."""

    async def delete(self, webhook: Webhook) -> None: ...

    async def replace_secret(self, secret: WebhookSecret, *, old_expires_at: datetime, most: int) -> bool:
        """Adds a secret and makes the previous one expire. Returns False if ``most`` secrets are already valid."""

    async def add_test(self, delivery: Delivery, event: bytes) -> None:
        """Adds a test delivery, which is due even if the webhook is paused after failures."""

    async def deliver_again(self, webhook_id: str, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Makes a delivery due now, even if the webhook is paused. Returns None if the delivery doesn't exist."""

    async def is_revoked(self, key_id: str) -> bool:
        """Returns whether the key has been revoked, and blocks revocations until the transaction ends.

        Must be called before ``lock``.
        """

    async def revoke(self, key_id: str, at: datetime) -> None:
        """Records that the key has been revoked, because commands that were sent earlier may still arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWebhook:
    """A webhook that this worker has claimed.

    Deliveries have been created up to the position ``cursor``. If ``has_room`` is set, more may be created. ``secrets``
    are valid and sorted from newest to oldest. If ``several_fail`` is set, several chains are waiting for another
    attempt. Then the endpoint itself seems to fail, not just a single event.
    """

    webhook: Webhook
    cursor: int
    secrets: Sequence[WebhookSecret]
    has_room: bool
    streak: FailureStreak
    several_fail: bool

    def is_resting(self, now: datetime) -> bool:
        """Returns whether the webhook is paused after failures, so that only tests and redeliveries are sent."""
        return self.several_fail and self.streak.is_fresh(now)

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt to reach the webhook failed."""
        return self.streak.since is not None


class WebhookQueue(Protocol):
    """The workers' queue of webhooks. A webhook belongs to one worker at a time, until the worker's lease expires."""

    async def renew(self, worker_id: str, lease_seconds: float) -> None:
        """Starts or renews the worker's lease."""

    async def claim(self, worker_id: str, *, now: datetime, limit: int) -> Sequence[str]:
        """Claims enabled webhooks that have work and no live worker. Returns the webhooks' IDs.

        Companies take turns. A paused webhook has work only if the first attempt of a test or redelivery is due.
        """

    async def release(self, worker_id: str, webhook_ids: Collection[str]) -> None: ...

    async def end(self, worker_id: str) -> None:
        """Ends the worker's lease and releases its webhooks."""

    async def claimed(self, worker_id: str, webhook_id: str, *, now: datetime) -> ClaimedWebhook | None:
        """Returns a claimed webhook, or None if it has been disabled, deleted or claimed by another worker."""

    async def pick_up(self, worker_id: str, claimed: ClaimedWebhook, found: Sequence[Delivery], *, cursor: int) -> bool:
        """Stores deliveries and advances the cursor. Returns False if another worker has the webhook now.

        A delivery waits for earlier pending deliveries in its chain.
        """

    async def due(
        self, claimed: ClaimedWebhook, *, now: datetime, without: Collection[str], chains: int
    ) -> Sequence[Sequence[DueDelivery]]:
        """Returns the first deliveries of each chain that has a due attempt and isn't in ``without``.

        The chains that have been due the longest come first. For a failing webhook, the newest chains come first, so
        that tests and redeliveries don't wait behind the backlog. While a webhook is paused, only the first attempts of
        tests and redeliveries are due.
        """

    async def record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], *, now: datetime
    ) -> bool:
        """Stores the outcomes of attempts, and lets the chains continue. Returns False if the claim was lost.

        Disables the webhook if its endpoint is gone (410) or has failed for too long.
        """


@dataclass(frozen=True, slots=True)
class Backlog:
    """The pending deliveries of all webhooks.

    ``overdue_seconds`` is the delay of the oldest due attempt, and ``events_behind`` the backlog of the slowest
    webhook. Both exclude webhooks that failed within the last five minutes. If a webhook failed earlier, the delay is
    counted from that failure or from the due time, whichever is later.
    """

    pending: int
    overdue_seconds: float
    events_behind: int


class WebhookClient(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Makes one attempt within the timeout. Without a response, the answer has no status."""

    async def check(self, url: str) -> None:
        """Raises ``UnusableUrl`` or ``AddressRefused`` if the URL mustn't be called."""
