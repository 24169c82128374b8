"""Processes that deliver, on PostgreSQL and a receiver on this machine: one is killed, secrets rotate, others wait."""

import asyncio
import base64
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import pytest

from deploy.local.home import PROJECT_ROOT
from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.eventing.administration import create_topics
from libs.fairness import FairSemaphore
from libs.outbound import parse_networks, public_or_within
from services.timeline.adapters.webhook_http import HttpWebhookClient
from services.timeline.domain.deliveries import Delivery, DeliveryStatus
from services.timeline.domain.webhooks import Webhook
from services.timeline.use_cases.delivering.attempts import WebhookAttempts
from services.timeline.use_cases.delivering.delivery import DeliveryTools
from services.timeline.use_cases.delivering.worker import WebhookWorker
from tests.integration.timeline.conftest import Stores
from tests.support.waiting import WITHIN, until
from tests.support.webhook_fakes import CIPHER
from tests.support.webhook_receiver import Receiver, receiving


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


def now() -> datetime:
    return datetime.now(UTC)


@asynccontextmanager
async def working(
    stores: Stores, clock: Callable[[], datetime] = now, *, seconds: float = 15, grace: float = 10
) -> AsyncIterator[None]:
    """A worker of this process; ``grace``: seconds for deliveries that are under way at its end."""
    client = HttpWebhookClient(public_or_within(parse_networks("127.0.0.0/8")), seconds=seconds)
    attempts = WebhookAttempts(client, CIPHER)
    tools = DeliveryTools(stores.queue, stores.timeline, attempts, FairSemaphore(64, each=32), clock)
    worker = WebhookWorker(tools, new_id())
    tasks = [asyncio.create_task(each) for each in (worker.renew(), worker.run())]
    yield
    for task in tasks:
        task.cancel()
    await worker.stop(grace)
    await client.close()


async def settled(stores: Stores, webhook: Webhook, count: int) -> list[Delivery]:
    """The deliveries, oldest first, once that many have ended."""
    return await _until(
        stores, webhook, lambda found: sum(each.status is not DeliveryStatus.PENDING for each in found) >= count
    )


async def picked_up(stores: Stores, webhook: Webhook, count: int) -> list[Delivery]:
    """The deliveries, oldest first, once there are that many."""
    return await _until(stores, webhook, lambda found: len(found) >= count)


async def _until(stores: Stores, webhook: Webhook, enough: Callable[[Sequence[Delivery]], bool]) -> list[Delivery]:
    async def look() -> list[Delivery] | None:
        found = (await stores.reader.deliveries(webhook.id, limit=1000, offset=0)).items
        return sorted(found, key=lambda each: each.position) if enough(found) else None

    return await until(look)


async def test_events_are_delivered_in_order_and_recorded(real: Stores, receiver: Receiver) -> None:
    ada = real.caller()
    webhook = await real.webhook(ada, "thing.*", url=receiver.url())
    async with working(real):
        expected = {subject: await real.happen(ada, subject, times=12) for subject in ("a", "b", "c")}
        found = await settled(real, webhook, 36)
    assert {each.status for each in found} == {DeliveryStatus.DELIVERED}
    assert {(each.last_status, each.last_response, each.attempts) for each in found} == {(200, "thanks", 1)}
    for ids in expected.values():
        assert [each for each in receiver.ids() if each in ids] == ids
    bodies = receiver.verified("whsec_c2VjcmV0")
    assert {body["type"] for body in bodies} == {"thing.happened"}
    assert [body["data"]["id"] for body in bodies] == receiver.ids()


@pytest.mark.outage("a webhook's receiver")
async def test_a_receiver_that_hangs_holds_up_nobody_else(real: Stores, receiver: Receiver) -> None:
    ada, eve = real.caller(), real.caller("Other", "eve")
    receiver.hanging.add("/hang")
    hanging = [await real.webhook(eve, url=receiver.url("/hang")) for _ in range(4)]
    webhook = await real.webhook(ada, url=receiver.url())
    async with working(real, seconds=3600, grace=0.1):
        for _ in range(30):
            await real.happen(eve)
        expected = [(await real.happen(ada))[0] for _ in range(30)]
        await settled(real, webhook, 30)
        # A worker whose lease ended at a busy moment sends again what it had not recorded.
        assert set(receiver.ids()) == set(expected)
        await until(lambda: len(receiver.ids("/hang")) == 32)
        # Permits may all be held before the last events of a webhook are picked up.
        for each in hanging:
            assert len(await picked_up(real, each, 30)) == 30
        assert len(receiver.ids("/hang")) == 32, "no more than a company's share"


@asynccontextmanager
async def process(database_url: str, kafka: str, prefix: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """``python -m services.timeline webhooks``; killed without warning at the end, if it still runs."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AES_")},
        "AES_TIMELINE_DATABASE_URL": database_url,
        "AES_TIMELINE_PORT": str(choose_free()),
        "AES_KAFKA_BOOTSTRAP_SERVERS": kafka,
        "AES_TOPIC_PREFIX": prefix,
        "AES_SIGNING_KEY": "k" * 40,
        "AES_SECRETS_KEY": base64.b64encode(b"k" * 32).decode(),
        "AES_OUTBOUND_NETWORKS": "127.0.0.0/8",
    }
    command = (sys.executable, "-m", "services.timeline", "webhooks")
    running = await asyncio.create_subprocess_exec(*command, env=environment, cwd=PROJECT_ROOT)
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


@pytest.mark.crash("a webhook worker")
async def test_two_processes_of_which_one_is_killed_deliver_everything(
    real: Stores, receiver: Receiver, database_url: str, kafka: str, topic_prefix: str
) -> None:
    await create_topics(kafka, topic_prefix)
    ada = real.caller()
    paths = [f"/{number}" for number in range(8)]
    webhooks = [await real.webhook(ada, url=receiver.url(path)) for path in paths]
    subjects = [new_id() for _ in range(5)]
    expected: dict[str, list[str]] = {subject: [] for subject in subjects}

    async def happen(times: int) -> None:
        for subject in subjects:
            expected[subject] += await real.happen(ada, subject, times=times)

    async with AsyncExitStack() as stack:
        first, _ = [await stack.enter_async_context(process(database_url, kafka, topic_prefix)) for _ in range(2)]
        await happen(4)
        await asyncio.gather(*(receiver.until(1, path, WITHIN) for path in paths))
        await happen(40)
        await receiver.until(30, paths[0], WITHIN)
        first.kill()
        await happen(4)
        for webhook in webhooks:
            found = await settled(real, webhook, 5 * 48)
            assert {each.status for each in found} == {DeliveryStatus.DELIVERED}
    for path in paths:
        for ids in expected.values():
            first_seen = list(dict.fromkeys(each for each in receiver.ids(path) if each in ids))
            assert first_seen == ids, "each at least once, in order"
