"""The timeline's interfaces to its database and to webhooks' endpoints."""

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

    A company's positions have no gaps, and events are stored in the order of their positions. So a reader at a position
    has seen every event below it.
    """

    async def head(self, company_id: str) -> int:
        """Returns the company's newest position, or 0 before its first event."""

    async def heads(self, company_ids: Sequence[str]) -> Mapping[str, int]:
        """Returns the newest position of each company that has events."""

    async def newest(self, where: TimelineFilter) -> RecordedEvent | None:
        """Returns the newest event that matches the filter, examining at most 5,000 events found by an index."""

    async def page(self, where: TimelineFilter, *, after: int, limit: int) -> TimelinePage:
        """Returns events with positions above ``after``, in order, and the start of the next page."""

    async def page_back(self, where: TimelineFilter, *, before: int | None, limit: int) -> TimelinePage:
        """Returns events before a position or from the end, newest first, and the start of the next page."""

    async def turn(self, company_id: str, turn_id: str, *, after_sequence: int) -> Sequence[RecordedEvent]:
        """Returns the turn's recorded events with sequences above ``after_sequence``, in order."""


class TimelinePartitions(Protocol):
    """The timeline's storage, day by day. Any process may call any method at any time."""

    async def make(self, today: date) -> None:
        """Creates missing storage for today, for the next days and, because clocks may be slow, for yesterday."""

    async def drop_before(self, day: date) -> None:
        """Drops the events of all days before ``day``."""


class WebhookReader(Protocol):
    """Reads webhooks and their deliveries. Deleted webhooks aren't included."""

    async def webhook(self, company_id: str, webhook_id: str) -> Webhook | None: ...

    async def webhooks(self, reader: Identity, *, limit: int, offset: int, cursor: str | None = None) -> Page[Webhook]:
        """Returns a page of the webhooks that the reader may see, newest first, and their total number."""

    async def deliveries(
        self, webhook_id: str, *, limit: int, offset: int, cursor: str | None = None
    ) -> Page[Delivery]:
        """Returns a page of deliveries, newest first, and their total number."""

    async def delivery(self, webhook_id: str, delivery_id: str) -> Delivery | None: ...


class WebhookWriter(Protocol):
    """Changes webhooks within a transaction, which the caller commits."""

    async def add(self, webhook: Webhook, secret: WebhookSecret, *, most: int) -> None:
        """Adds a webhook, which receives events from now on. Raises ``Conflict`` if the company has ``most``."""

    async def lock(self, company_id: str, webhook_id: str) -> Webhook | None:
        """Locks a webhook until the end of the transaction."""

    async def lock_of_key(self, key_id: str) -> Sequence[Webhook]:
        """Locks all webhooks that depend on a key, until the end of the transaction."""

    async def save(self, before: Webhook, after: Webhook) -> None:
        """Stores a locked webhook's new state. If it was enabled, its pending deliveries are due immediately."""

    async def delete(self, webhook: Webhook) -> None: ...

    async def replace_secret(self, secret: WebhookSecret, *, old_expires_at: datetime, most: int) -> bool:
        """Adds a secret and lets the previous one expire. Returns False if ``most`` secrets are already valid."""

    async def add_test(self, delivery: Delivery, event: bytes) -> None:
        """Adds a test delivery, which is due even while the webhook pauses."""

    async def deliver_again(self, webhook_id: str, delivery_id: str, *, now: datetime) -> Delivery | None:
        """Makes a delivery due now, in a chain of its own. A pending delivery no longer blocks its former chain.

        The delivery is due even while the webhook pauses. Returns None if there's no such delivery.
        """

    async def is_revoked(self, key_id: str) -> bool:
        """Returns whether the key was revoked. Blocks revocations until the transaction ends. Call before ``lock``."""

    async def revoke(self, key_id: str, at: datetime) -> None:
        """Records that the key was revoked, since older commands may still arrive."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedWebhook:
    """A webhook claimed by this worker. ``cursor``: the position up to which deliveries were created.

    ``secrets``: the valid secrets, newest first. ``has_room``: whether more deliveries may be created.
    ``several_fail``: whether several chains are waiting for another attempt, so that the failure isn't specific to one
    subject.
    """

    webhook: Webhook
    cursor: int
    secrets: Sequence[WebhookSecret]
    has_room: bool
    streak: FailureStreak
    several_fail: bool

    def is_resting(self, now: datetime) -> bool:
        """Returns whether the webhook pauses, so that only tests and redeliveries are sent."""
        return self.several_fail and self.streak.is_fresh(now)

    @property
    def is_failing(self) -> bool:
        """Whether the last attempt failed."""
        return self.streak.since is not None


class WebhookQueue(Protocol):
    """The workers' queue. A webhook belongs to one worker at a time, as long as the worker's lease lasts.

    ``pick_up`` and ``record`` have no effect if the webhook belongs to another worker.
    """

    async def renew(self, worker_id: str, lease_seconds: float) -> None:
        """Starts or renews the worker's lease."""

    async def claim(self, worker_id: str, *, now: datetime, limit: int) -> Sequence[tuple[str, str]]:
        """Claims enabled webhooks that have work and no live worker. Returns their companies' IDs and their own.

        Rotates between companies. A pausing webhook has work if the first attempt of a test or redelivery is due.
        """

    async def release(self, worker_id: str, webhook_ids: Collection[str]) -> None: ...

    async def end(self, worker_id: str) -> None:
        """Releases the worker's webhooks and its lease."""

    async def claimed(self, worker_id: str, webhook_id: str, *, now: datetime) -> ClaimedWebhook | None:
        """Returns a claimed webhook, or None if it's disabled, deleted or claimed by another worker."""

    async def pick_up(self, worker_id: str, claimed: ClaimedWebhook, found: Sequence[Delivery], *, cursor: int) -> bool:
        """Stores deliveries and moves the cursor in one transaction. Returns False if the webhook is another worker's.

        A delivery waits for earlier pending deliveries in its chain.
        """

    async def due(
        self, claimed: ClaimedWebhook, *, now: datetime, without: Collection[str], chains: int
    ) -> Sequence[Sequence[DueDelivery]]:
        """Returns the first deliveries, in order, of chains with a due attempt, except the chains in ``without``.

        Chains that have been due the longest come first. For a failing webhook, the newest chains come first, so that
        tests and redeliveries don't wait behind the backlog. While the webhook pauses, only first attempts of tests and
        redeliveries are due.
        """

    async def record(
        self, worker_id: str, webhook: Webhook, outcomes: Sequence[AttemptOutcome], *, now: datetime
    ) -> bool:
        """Stores the outcomes of attempts, lets chains continue, and disables the webhook if it has failed for too
        long.

        Returns False if the webhook is another worker's.
        """


@dataclass(frozen=True, slots=True)
class Backlog:
    """Pending work: ``pending`` deliveries, how late the oldest due attempt is, and how far the slowest cursor is
    behind.

    The latter two exclude webhooks that failed within the last five minutes, since these wait for their endpoints. For
    a webhook that failed earlier, lateness is counted from the last failure at the earliest.
    """

    pending: int
    overdue_seconds: float
    events_behind: int


class WebhookMaintenanceStore(Protocol):
    """Periodic work on all webhooks. Any number of processes may do it concurrently."""

    async def secrets_not_under(self, key_id: bytes, *, after: str, limit: int) -> Sequence[WebhookSecret]:
        """Returns secrets that are encrypted under other keys, ordered by ID, with IDs above ``after``."""

    async def replace_ciphertext(self, old: WebhookSecret, ciphertext: bytes) -> None:
        """Replaces a secret's ciphertext, unless the secret has changed in the meantime."""

    async def purge(self, *, now: datetime, keep: timedelta, keep_pending: timedelta, limit: int) -> int:
        """Deletes up to ``limit`` old deliveries, including those of deleted webhooks. Returns their number.

        Deletes pending deliveries only if their webhook is disabled.
        """

    async def backlog(self, *, now: datetime) -> Backlog: ...


class DeliveryMetrics(Protocol):
    def attempted(self, answer: Answer, seconds: float) -> None: ...
    def waiting(self, backlog: Backlog) -> None: ...


class WebhookClient(Protocol):
    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        """Makes one attempt, within the timeout. Returns an answer without a status instead of raising an error."""

    async def refusal(self, url: str) -> str | None:
        """Returns why the URL mustn't be called, or None if it may be. Doesn't call it."""
