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

    Positions of a company have no gaps, and an event is stored before the one with the next position. So a reader at a
    position has seen every event below it.
    """

    async def head(self, company_id: str) -> int:
        """The newest position of the company; 0 before its first event."""

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        """The newest position of each of the companies that have events."""

    async def newest(self, where: TimelineFilter) -> RecordedEvent | None:
        """The last event that meets the filter, among the newest 5,000 that an index leads to."""

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        """Events with positions above ``after``, in their order, and where to go on."""

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        """Events with positions below ``before``, or the last ones, newest first, and where to go on."""

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[RecordedEvent]:
        """Recorded events whose subject is the turn, with sequences above ``after_sequence``, in their order."""


class TimelinePartitions(Protocol):
    """The timeline's storage, day by day. Any process may call any method at any time."""

    async def make(self, today: date) -> None:
        """Makes what is missing for today, for the day before, as clocks may be behind, and for the next days."""

    async def drop_before(self, day: date) -> None:
        """Drops the events of earlier days."""


class WebhookReader(Protocol):
    """Reads committed webhooks, not deleted ones, and their deliveries."""

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None: ...

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        """Returns a page of the webhooks that the reader may see, newest first, and the number of all of them."""

    async def deliveries(
        self, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        """Returns a page of deliveries, newest first, and the number of all of them."""

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None: ...


class WebhookWriter(Protocol):
    """Changes webhooks inside one transaction, which the caller commits."""

    async def add(self, webhook: Webhook, secret: WebhookSecret, *, most: int) -> None:
        """It gets what happens from now on. Raises ``Conflict`` when the company has ``most`` already."""

    async def lock(self, company_id: str, webhook_id: str) -> Webhook | None:
        """Locks a webhook until the end of the transaction."""

    async def lock_of_key(self, key_id: str) -> Sequence[Webhook]:
        """Locks all webhooks that stand on a key."""

    async def save(self, before: Webhook, after: Webhook) -> None:
        """Stores a locked webhook's new state. An enabled one resumes: waiting deliveries are due at once."""

    async def delete(self, webhook: Webhook) -> None: ...

    async def replace_secret(self, secret: WebhookSecret, *, old_expires_at: datetime, most: int) -> bool:
        """Adds a secret and lets the one before it expire; False when ``most`` sign already."""

    async def add_test(self, delivery: Delivery, event: bytes) -> None:
        """It is due also while the webhook rests."""

    async def deliver_again(self, webhook_id: str, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Makes a delivery due now, in a chain of its own. One that was pending no longer holds up its former chain.

        It is due also while the webhook rests. None when there is no such delivery.
        """

    async def is_revoked(self, key_id: str) -> bool:
        """Whether the key was revoked. It is not until the end of the transaction; webhooks are locked after this."""

    async def revoke(self, key_id: str, at: datetime) -> None:
        """Keeps in mind that the key was revoked: commands from before that may still come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWebhook:
    """A webhook that this worker delivers to. ``cursor`` is the position up to which events were picked up.

    ``secrets`` are those that sign, the newest first. ``has_room``: more may be picked up. ``several_fail``: more than
    one chain waits for another attempt, so that it is not a single subject that fails.
    """

    webhook: Webhook
    cursor: int
    secrets: Sequence[WebhookSecret]
    has_room: bool
    streak: FailureStreak
    several_fail: bool

    def is_resting(self, now: datetime) -> bool:
        """Whether nothing is done for it now, but what somebody asked for: a test, or what is to be delivered again."""
        return self.several_fail and self.streak.is_fresh(now)

    @property
    def is_failing(self) -> bool:
        """Whether its last attempt failed."""
        return self.streak.since is not None


class WebhookQueue(Protocol):
    """Work of processes that deliver. A webhook belongs to one worker at a time, for as long as its lease lasts.

    Only the worker that has a webhook picks up and records; for another one that changes nothing.
    """

    async def renew(self, worker_id: str, lease_seconds: float) -> None:
        """Begins or prolongs the worker's lease."""

    async def claim(self, worker_id: str, *, now: datetime, limit: int) -> Sequence[tuple[str, str]]:
        """Claims enabled webhooks with something to do that no living worker has; returns company and webhook ids.

        Companies take turns. A webhook that rests has something to do when a test, or what is to be delivered again, is
        due for the first time.
        """

    async def release(self, worker_id: str, webhook_ids: Collection[str]) -> None: ...

    async def end(self, worker_id: str) -> None:
        """Releases everything that the worker has, and its lease."""

    async def claimed(self, worker_id: str, webhook_id: str, *, now: datetime) -> ClaimedWebhook | None:
        """None when it is disabled, deleted, or another worker's."""

    async def pick_up(self, worker_id: str, claimed: ClaimedWebhook, found: Sequence[Delivery], *, cursor: int) -> bool:
        """Stores deliveries and moves the cursor, in one transaction; False when the webhook is another worker's.

        A delivery whose chain has a pending one before it waits for that.
        """

    async def due(
        self, claimed: ClaimedWebhook, *, now: datetime, without: Collection[str], chains: int
    ) -> Sequence[Sequence[DueDelivery]]:
        """The first deliveries, in order, of chains whose next attempt is due, but for the chains of ``without``.

        The longest due come first. For a failing webhook the newest come first, since tests and redeliveries must not
        wait behind everything that failed. While it rests, only first attempts of tests and redeliveries are due.
        """

    async def record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], *, now: datetime
    ) -> bool:
        """Stores what attempts led to and lets chains go on; disables the webhook when it is to be given up.

        False when the webhook is another worker's.
        """


@dataclass(frozen=True, slots=True)
class Backlog:
    """Waiting work: ``pending`` deliveries, for how long the one due first is overdue, the cursor farthest behind.

    The latter two without webhooks that failed within the last five minutes: their work waits for their endpoints. One
    that failed earlier, and is not attempted though something is due, is overdue since that failure at most.
    """

    pending: int
    overdue_seconds: float
    events_behind: int


class WebhookMaintenanceStore(Protocol):
    """Periodic work on all webhooks. Any number of processes may do the same at once."""

    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[WebhookSecret]:
        """Secrets under other keys, in the order of their ids, with ids above ``after``."""

    async def replace_ciphertext(self, old: WebhookSecret, ciphertext: bytes) -> None:
        """Does nothing when the secret was changed meanwhile."""

    async def purge(self, *, now: datetime, keep: timedelta, keep_pending: timedelta, limit: int) -> int:
        """Deletes up to ``limit`` old deliveries, and those of deleted webhooks; returns their number.

        Of those that wait, only those of disabled webhooks are deleted.
        """

    async def backlog(self, *, now: datetime) -> Backlog: ...


class DeliveryMetrics(Protocol):
    def attempted(self, answer: Answer, seconds: float) -> None: ...
    def waiting(self, backlog: Backlog) -> None: ...


class WebhookClient(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Makes one attempt, within its time; no answer is an answer without a status. Never raises for a bad one."""

    async def refusal(self, url: str) -> str | None:
        """The reason why this URL may not be called, found without calling it; None when there is none."""
