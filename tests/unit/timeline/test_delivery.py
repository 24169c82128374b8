"""Deliveries on a fake clock: order, repeats, giving up, rotation, hanging endpoints, several workers."""

import asyncio
import base64
import itertools
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from libs.contracts.error_catalogue import DisabledReason
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import Command, CommandRejected, Event
from libs.contracts.resources.webhooks import (
    CreateWebhook,
    Redeliver,
    RotateWebhookSecret,
    SendTestEvent,
    WebhookStatus,
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
from tests.support.webhook_fakes import CIPHER, FakeEndpoints, FakeWebhooks, Received, sealed


def caller(
    company: str = "company-1", user: str = "user-1", scopes: tuple[str, ...] = ("webhooks:write", "company:read")
) -> Identity:
    return Identity(company_id=company, user_id=user, key_id=f"key-of-{user}", scopes=frozenset(scopes))


def new_webhook_secret() -> str:
    return "whsec_" + base64.b64encode(secrets.token_bytes(32)).decode()


@dataclass(frozen=True)
class IssuedWebhook:
    webhook: Webhook
    secret: str


class WebhookWorld:
    """Webhooks, their timeline and workers in memory, on a clock that stands still."""

    def __init__(self, cipher: SecretCipher = CIPHER) -> None:
        self.clock = Clock()
        self.timeline = FakeTimeline()
        self.store = FakeWebhooks(self.timeline)
        self.endpoints = FakeEndpoints()
        self._service = TimelineService(self.timeline, FakeUsage(), self.store, self.endpoints, self.clock.now)
        attempts = WebhookAttempts(self.endpoints, cipher)
        self._tools = DeliveryTools(self.store, self.timeline, attempts, FairSemaphore(64, each=32), self.clock.now)
        self.worker = self.new_worker()

    def new_worker(self) -> WebhookWorker:
        return WebhookWorker(self._tools, new_id())

    async def webhook(self, *types: str, identity: Identity | None = None, url: str = "") -> IssuedWebhook:
        secret, webhook_id = new_webhook_secret(), new_id()
        command = CreateWebhook(
            url=url or f"https://{new_id()}.example/",
            event_types=types or ("*",),
            description="",
            status=WebhookStatus.ENABLED,
            secret=sealed(secret, webhook_id),
        )
        await self._dispatch(command, identity, webhook_id)
        return IssuedWebhook(self.store.rows[webhook_id].webhook, secret)

    async def rotate(self, webhook: Webhook, *, grace_seconds: int) -> str:
        stored = sealed(secret := new_webhook_secret(), webhook.id)
        await self._dispatch(RotateWebhookSecret(webhook_id=webhook.id, secret=stored, grace_seconds=grace_seconds))
        return secret

    async def send_test(self, webhook: Webhook) -> Any:
        return await self._dispatch(SendTestEvent(webhook_id=webhook.id))

    async def deliver_again(self, webhook: Webhook, delivery: Delivery) -> None:
        await self._dispatch(Redeliver(webhook_id=webhook.id, delivery_id=delivery.id))

    async def _dispatch(self, command: Command, identity: Identity | None = None, command_id: str = "") -> Event:
        event = await self._service.dispatch(command, command_id or new_id(), "label", identity or caller())
        assert not isinstance(event, CommandRejected), event
        return event

    async def happen(self, subject: str = "", *, times: int = 1, **fields: Any) -> list[str]:
        """Ids of new events of one subject."""
        subject = subject or new_id()
        events = [event(subject=subject, **fields) for _ in range(times)]
        await self.timeline.store(events, {})
        return [each.id for each in events]

    async def settle(self) -> None:
        """Delivers what is due now."""
        await self.store.renew(self.worker._worker_id, 10)
        while await self.worker.poll():
            await self.worker.idle()

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
    return json.loads(received.body)


async def settled() -> None:
    """Lets immediate work finish; delayed work still waits."""
    await elapse(0.01)


pytestmark = pytest.mark.virtual_time
HOUR, DAY = 3600.0, 86_400.0
DELIVERED, FAILED, PENDING = DeliveryStatus.DELIVERED, DeliveryStatus.FAILED, DeliveryStatus.PENDING


@pytest.fixture
def world() -> WebhookWorld:
    return WebhookWorld()


async def test_an_event_is_sent_signed_as_the_standard_says(world: WebhookWorld) -> None:
    issued = await world.webhook("turn.*")
    (event_id,) = await world.happen(type="turn.completed", data=b'{"text": "gr\xc3\xbcn"}', turn_id="turn-1")
    await world.happen(type="session.created")

    await world.settle()

    (received,) = world.received(issued.webhook)
    body = verified(received, issued.secret)
    stored = world.timeline.events["company-1"][0]
    assert received.headers["content-type"] == "application/json"
    assert received.event_id == event_id
    assert body == {"type": "turn.completed", "timestamp": stored.time, "data": json.loads(stored.to_json())}
    assert body["data"]["data"] == {"text": "grün"}
    (delivery,) = await world.deliveries(issued.webhook)
    assert (delivery.status, delivery.attempts, delivery.last_status) == (DELIVERED, 1, 200)


async def test_a_receiver_that_was_down_for_an_hour_gets_everything_in_order(world: WebhookWorld) -> None:
    issued = await world.webhook()
    world.endpoints.answer = lambda _: None
    expected: dict[str, list[str]] = {}
    for minute in range(60):
        subject = f"subject-{minute % 7}"
        expected.setdefault(subject, []).extend(await world.happen(subject, times=2))
        await world.pass_time(60)
    failed = len(world.endpoints.received)
    world.endpoints.answer = lambda _: 200

    await world.pass_time(3 * HOUR)

    seen = world.received_ids(issued.webhook)[failed:]
    assert {subject: [each for each in seen if each in ids] for subject, ids in expected.items()} == expected
    assert set(await world.statuses(issued.webhook)) == {DELIVERED}


async def test_an_endpoint_that_goes_on_failing_is_asked_now_and_then_and_gets_all_soon_after(
    world: WebhookWorld,
) -> None:
    issued = await world.webhook()
    world.endpoints.answer = lambda _: 500
    expected = []
    for _ in range(900):
        expected += await world.happen()
        await world.pass_time(1)

    asked = len(world.received(issued.webhook))
    # Four calls at a time: rests grow to 30 s within four minutes, and then there are 22 more.
    assert asked < 4 * (45 + 22)
    assert len(await world.deliveries(issued.webhook)) <= 400, "the others wait in the timeline"
    world.endpoints.answer = lambda _: 200
    await world.pass_time(31, step=1)
    # Those that were sent in vain are repeated when that is due.
    assert len(set(world.received_ids(issued.webhook)[asked:])) > len(expected) - asked


async def test_a_test_is_sent_though_calls_fail_that_were_under_way_when_it_was_asked_for(world: WebhookWorld) -> None:
    issued = await world.webhook(url="https://slow/")
    world.endpoints.answer = lambda _: 500
    for _ in range(20):
        await world.happen()
        await world.pass_time(30)
    await world.happen(times=1)
    world.clock.advance(31)
    world.endpoints.hanging.add("https://slow/")
    await world.worker.poll()
    await settled()
    assert world.endpoints.under_way > 0
    asked = len(world.received(issued.webhook))

    test = await world.send_test(issued.webhook)
    await world.happen()
    world.endpoints.hanging.clear()
    world.endpoints.let_go.set()
    await world.worker.idle()
    await world.settle()

    assert world.received_ids(issued.webhook)[asked:] == [test.event_id], "everything else waits until it has rested"


async def test_attempts_follow_the_schedule_and_end(world: WebhookWorld) -> None:
    issued = await world.webhook()
    other = await world.webhook()
    world.endpoints.answer = lambda received: 200 if received.url == other.webhook.url else 500
    await world.happen()
    began = world.clock.monotonic()
    moments: list[float] = []

    for _ in range(9):
        await world.settle()
        moments.append(world.clock.monotonic() - began)
        (delivery,) = await world.deliveries(issued.webhook)
        if delivery.next_attempt_at is not None:
            world.clock.advance((delivery.next_attempt_at - world.clock.now()).total_seconds())
    await world.pass_time(DAY, step=HOUR)

    pauses = [second - first for first, second in itertools.pairwise(moments)]
    assert pauses == [5, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000]
    assert (delivery.status, delivery.attempts, delivery.last_status) == (FAILED, 9, 500)
    assert delivery.last_response == "answered"
    assert len(world.received(issued.webhook)) == 9


async def test_a_failing_subject_delays_no_other_and_goes_on_after_its_failure(world: WebhookWorld) -> None:
    issued = await world.webhook()
    (poison, after), (fine,) = await world.happen("bad", times=2), await world.happen("good")
    world.endpoints.answer = lambda received: 500 if received.event_id == poison else 200

    await world.settle()
    assert world.received_ids(issued.webhook) == [poison, fine]
    (waiting,) = [each for each in await world.deliveries(issued.webhook) if each.event_id == after]
    assert (waiting.status, waiting.attempts, waiting.next_attempt_at) == (PENDING, 0, None)

    for _ in range(3):
        await world.happen("good")
        await world.pass_time(DAY, step=HOUR / 2)
    assert world.received_ids(issued.webhook)[-1] == after or after in world.received_ids(issued.webhook)
    assert [each.status for each in await world.deliveries(issued.webhook)][:2] == [FAILED, DELIVERED]


async def test_a_webhook_that_answers_410_is_disabled_at_once(world: WebhookWorld) -> None:
    issued = await world.webhook()
    world.endpoints.answer = lambda _: 410
    await world.happen("a", times=3)

    await world.settle()
    await world.pass_time(DAY, step=HOUR)

    found = await world.store.webhook("company-1", issued.webhook.id)
    assert (found.status, found.disabled_reason) == (WebhookStatus.DISABLED, DisabledReason.GONE)
    assert len(world.received(issued.webhook)) == 1
    assert (DisabledReason.GONE, issued.webhook.id) in world.store.given_up


async def test_a_webhook_that_got_nothing_for_five_days_is_disabled(world: WebhookWorld) -> None:
    issued = await world.webhook()
    world.endpoints.answer = lambda _: None
    for _ in range(5 * 24 - 1):
        await world.happen()
        await world.pass_time(HOUR, step=HOUR)
    before = await world.store.webhook("company-1", issued.webhook.id)
    assert before.status is WebhookStatus.ENABLED

    await world.pass_time(DAY, step=HOUR)

    after = await world.store.webhook("company-1", issued.webhook.id)
    assert (after.status, after.disabled_reason) == (WebhookStatus.DISABLED, DisabledReason.UNREACHABLE)
    assert world.store.given_up == [(DisabledReason.UNREACHABLE, issued.webhook.id)]


async def test_a_single_failure_long_after_another_one_disables_nothing(world: WebhookWorld) -> None:
    issued = await world.webhook()
    world.endpoints.answer = lambda _: 500
    await world.happen()
    await world.pass_time(3 * DAY, step=HOUR)
    assert set(await world.statuses(issued.webhook)) == {FAILED}
    world.clock.advance(10 * DAY)
    await world.happen()

    await world.settle()

    found = await world.store.webhook("company-1", issued.webhook.id)
    assert found.status is WebhookStatus.ENABLED


async def test_secrets_rotate_without_a_rejected_delivery(world: WebhookWorld) -> None:
    issued = await world.webhook()
    receiver_knows = issued.secret
    accepted: list[str] = []

    def answer(received: Received) -> int:
        verified(received, receiver_knows)
        accepted.append(received.event_id)
        return 200

    world.endpoints.answer = answer
    expected = await world.happen()
    await world.settle()
    new = await world.rotate(issued.webhook, grace_seconds=3600)
    expected += await world.happen()
    await world.settle()
    receiver_knows = new
    expected += await world.happen()
    await world.settle()
    await world.pass_time(2 * HOUR)
    expected += await world.happen()
    await world.settle()

    assert accepted == expected
    assert len(world.received(issued.webhook)[1].headers["webhook-signature"].split(" ")) == 2
    assert len(world.received(issued.webhook)[-1].headers["webhook-signature"].split(" ")) == 1
    with pytest.raises(AssertionError):
        verified(world.received(issued.webhook)[-1], issued.secret)


async def test_an_endpoint_that_fails_is_asked_by_fewer_calls(world: WebhookWorld) -> None:
    issued = await world.webhook(url="https://slow/")
    for _ in range(60):
        await world.happen()
    world.endpoints.hanging.add("https://slow/")
    await world.worker.poll()
    await settled()
    assert world.endpoints.under_way == 16
    let_go, world.endpoints.let_go = world.endpoints.let_go, asyncio.Event()
    let_go.set()
    await settled()

    assert len(world.received(issued.webhook)) == 20
    assert world.endpoints.under_way == 4
    world.endpoints.let_go.set()
    await world.worker.idle()


async def test_a_worker_that_dies_between_sending_and_recording_sends_again(world: WebhookWorld) -> None:
    issued = await world.webhook(url="https://slow/")
    (event_id,) = await world.happen()
    world.endpoints.hanging.add("https://slow/")
    dying = world.new_worker()
    await world.store.renew(dying._worker_id, 10)
    await dying.poll()
    await settled()
    assert world.received_ids(issued.webhook) == [event_id]
    world.endpoints.hanging.clear()

    await world.settle()
    assert world.received_ids(issued.webhook) == [event_id], "its lease lasts"
    world.store.expire(dying._worker_id)
    await world.settle()

    assert world.received_ids(issued.webhook) == [event_id, event_id]
    assert await world.statuses(issued.webhook) == [DELIVERED]
    world.endpoints.let_go.set()
    await dying.idle()
    (delivery,) = await world.deliveries(issued.webhook)
    assert (delivery.status, delivery.attempts) == (DELIVERED, 1), "what the late one says changes nothing"


async def test_a_worker_that_stops_records_what_it_sent_and_leaves_the_rest(world: WebhookWorld) -> None:
    issued = await world.webhook(url="https://slow/")
    expected = await world.happen("a", times=4)
    world.endpoints.hanging.add("https://slow/")
    await world.store.renew(world.worker._worker_id, 10)
    await world.worker.poll()
    await settled()
    world.worker._has_lease = True
    stopping = asyncio.create_task(world.worker.stop(30))
    await settled()
    world.endpoints.hanging.clear()
    world.endpoints.answer = lambda _: 200
    world.endpoints.let_go.set()
    await stopping

    assert world.received_ids(issued.webhook) == expected[:1]
    world.worker = world.new_worker()
    await world.pass_time(60, step=5)
    assert await world.statuses(issued.webhook) == [DELIVERED] * 4


async def test_private_events_reach_who_may_see_them(world: WebhookWorld) -> None:
    limited = ("webhooks:write",)
    all_of_it = await world.webhook()
    mine = await world.webhook(identity=caller(user="user-1", scopes=limited))
    colleague = await world.webhook(identity=caller(user="user-2", scopes=limited))
    stranger = await world.webhook(identity=caller("company-2"))
    shared, private, unknown = [(await world.happen(owner_id=owner))[0] for owner in (None, "user-1", "")]

    await world.settle()

    assert sorted(world.received_ids(all_of_it.webhook)) == sorted([shared, private, unknown])
    assert sorted(world.received_ids(mine.webhook)) == sorted([shared, private])
    assert world.received_ids(colleague.webhook) == [shared]
    assert world.received_ids(stranger.webhook) == []


async def test_an_event_that_is_gone_fails_its_delivery_and_no_other(world: WebhookWorld) -> None:
    issued = await world.webhook()
    world.endpoints.answer = lambda _: None
    await world.happen("a")
    await world.settle()
    stored = world.timeline.events["company-1"]
    stored.clear()
    world.clock.advance(60)

    await world.settle()

    (delivery,) = await world.deliveries(issued.webhook)
    assert (delivery.status, delivery.last_response) == (FAILED, "the event is no longer stored")


async def test_without_the_key_of_its_secret_nothing_is_sent_and_nothing_lost() -> None:
    blind = WebhookWorld(SecretCipher([b"x" * 32]))
    issued = await blind.webhook()
    await blind.happen()
    await blind.store.renew(blind.worker._worker_id, 10)
    await blind.worker.poll()
    await settled()

    assert blind.received(issued.webhook) == []
    assert await blind.statuses(issued.webhook) == [PENDING]
    for task in blind.worker._tasks:
        task.cancel()
