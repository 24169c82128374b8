"""Interfaces of the timeline to its database and to the endpoints of webhooks."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.pages import Page
from libs.contracts.timeline import RecordedEvent, TimelineFilter
from services.timeline.domain.deliveries import Answer, AttemptOutcome, Delivery, DueDelivery, FailureStreak
from services.timeline.domain.events import TimelinePage
from services.timeline.domain.webhooks import Webhook, WebhookSecret


class Timeline(Protocol):
    """Reads the numbered log of events.

    A company's positions have no gaps, and an event is stored before the one at the next position. So a reader at a
    position has seen every event below it.
    """

    async def head(self, company_id: str) -> int:
        """Returns the newest position of the company; 0 before its first event."""

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        """Returns the newest position of each company that has events."""

    async def newest(self, where: TimelineFilter) -> RecordedEvent | None:
        """Returns the last event that matches the filter, among the newest 5,000 found by an index."""

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        """Returns events with positions above ``after``, in order, and where the next page starts."""

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        """Returns events before a position or from the end, newest first, and the start of the next page."""

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[RecordedEvent]:
        """Returns recorded events of the turn, with sequences above ``after_sequence``, in order."""


class TimelinePartitions(Protocol):
    """The timeline's storage, day by day. Any process may call any method at any time."""

    async def make(self, today: date) -> None:
        """Creates what is missing for today, for the day before, as clocks may be slow, and for the next days."""

    async def drop_before(self, day: date) -> None:
        """Drops the events of earlier days."""


class WebhookReader(Protocol):
    """Reads committed webhooks, except deleted ones, and their deliveries."""

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None: ...

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        """Returns a page of the webhooks that the reader may see, newest first, and their total number."""

    async def deliveries(
        self, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        """Returns a page of deliveries, newest first, and their total number."""

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None: ...


class WebhookWriter(Protocol):
    """Changes webhooks in one transaction, which the caller commits."""

    async def add(self, webhook: Webhook, secret: WebhookSecret, *, most: int) -> None:
        """It receives events from now on. Raises ``Conflict`` if the company already has ``most``."""

    async def lock(self, company_id: str, webhook_id: str) -> Webhook | None:
        """Locks a webhook until the end of the transaction."""

    async def lock_of_key(self, key_id: str) -> Sequence[Webhook]:
        """Locks all webhooks that depend on a key."""

    async def save(self, before: Webhook, after: Webhook) -> None:
        """Stores a locked webhook's new state. An enabled one resumes: waiting deliveries are due immediately."""

    async def delete(self, webhook: Webhook) -> None: ...

    async def replace_secret(self, secret: WebhookSecret, *, old_expires_at: datetime, most: int) -> bool:
        """Adds a secret and lets the previous one expire; False if ``most`` already sign."""

    async def add_test(self, delivery: Delivery, event: bytes) -> None:
        """The delivery is due even while the webhook pauses."""

    async def deliver_again(self, webhook_id: str, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Makes a delivery due now, in its own chain. A pending one no longer blocks its former chain.

        It is due even while the webhook pauses. None if there is no such delivery.
        """

    async def is_revoked(self, key_id: str) -> bool:
        """Returns whether the key was revoked. Blocks revocations until the transaction ends. Call before ``lock``."""

    async def revoke(self, key_id: str, at: datetime) -> None:
        """Remembers that the key was revoked: older commands may still arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWebhook:
    """A webhook that this worker delivers to. ``cursor``: the position up to which events were picked up.

    ``secrets``: those that sign, newest first. ``has_room``: more events may be picked up. ``several_fail``: several
    chains wait for another attempt, so the failure isn't specific to one subject.
    """

    webhook: Webhook
    cursor: int
    secrets: Sequence[WebhookSecret]
    has_room: bool
    streak: FailureStreak
    several_fail: bool

    def is_resting(self, now: datetime) -> bool:
        """Returns whether only explicit requests are delivered now: tests and redeliveries."""
        return self.several_fail and self.streak.is_fresh(now)

    @property
    def is_failing(self) -> bool:
        """Whether its last attempt failed."""
        return self.streak.since is not None


class WebhookQueue(Protocol):
    """Work of delivering processes. A webhook belongs to one worker at a time, while its lease lasts.

    Only the worker that holds a webhook picks up and records; calls by any other change nothing.
    """

    async def renew(self, worker_id: str, lease_seconds: float) -> None:
        """Starts or renews the worker's lease."""

    async def claim(self, worker_id: str, *, now: datetime, limit: int) -> Sequence[tuple[str, str]]:
        """Claims enabled webhooks that have work and no living worker; returns company and webhook IDs.

        Companies rotate. A pausing webhook has work when the first attempt of a test or redelivery is due.
        """

    async def release(self, worker_id: str, webhook_ids: Collection[str]) -> None: ...

    async def end(self, worker_id: str) -> None:
        """Releases the worker's webhooks and its lease."""

    async def claimed(self, worker_id: str, webhook_id: str, *, now: datetime) -> ClaimedWebhook | None:
        """None if it is disabled, deleted, or another worker's."""

    async def pick_up(self, worker_id: str, claimed: ClaimedWebhook, found: Sequence[Delivery], *, cursor: int) -> bool:
        """Stores deliveries and moves the cursor, in one transaction; False if the webhook is another worker's.

        A delivery waits for an earlier pending one in its chain.
        """

    async def due(
        self, claimed: ClaimedWebhook, *, now: datetime, without: Collection[str], chains: int
    ) -> Sequence[Sequence[DueDelivery]]:
        """Returns the first deliveries, in order, of chains whose next attempt is due, except the chains in
        ``without``.

        The longest overdue come first. For a failing webhook the newest come first, so that tests and redeliveries
        don't wait behind the backlog. While it pauses, only first attempts of tests and redeliveries are due.
        """

    async def record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], *, now: datetime
    ) -> bool:
        """Stores the outcomes of attempts and lets chains continue; disables a webhook that is given up.

        False if the webhook is another worker's.
        """


@dataclass(frozen=True, slots=True)
class Backlog:
    """Waiting work: ``pending`` deliveries, how long the first one is overdue, and the cursor farthest behind.

    The latter two exclude webhooks that failed within the last five minutes, whose work waits for their endpoints. One
    that failed earlier and isn't attempted although something is due counts as overdue since that failure at most.
    """

    pending: int
    overdue_seconds: float
    events_behind: int


class WebhookMaintenanceStore(Protocol):
    """Periodic work on all webhooks, which any number of processes may do concurrently."""

    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[WebhookSecret]:
        """Returns secrets under other keys, ordered by ID, with IDs above ``after``."""

    async def replace_ciphertext(self, old: WebhookSecret, ciphertext: bytes) -> None:
        """Does nothing if the secret was changed in the meantime."""

    async def purge(self, *, now: datetime, keep: timedelta, keep_pending: timedelta, limit: int) -> int:
        """Deletes up to ``limit`` old deliveries, including those of deleted webhooks; returns their number.

        Deletes waiting deliveries only of disabled webhooks.
        """

    async def backlog(self, *, now: datetime) -> Backlog: ...


class DeliveryMetrics(Protocol):
    def attempted(self, answer: Answer, seconds: float) -> None: ...
    def waiting(self, backlog: Backlog) -> None: ...


class WebhookClient(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Makes one attempt, within its time limit; a missing response has no status. Never raises for a bad one."""

    async def refusal(self, url: str) -> str | None:
        """Returns why this URL must not be called, found without calling it; None if it may be."""
