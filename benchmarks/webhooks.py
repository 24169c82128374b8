"""Deliveries a second of one worker to a receiver on this machine: ``python -m benchmarks.webhooks DATABASE_URL``.

The database is an empty one of the gateway, migrated (``python -m services.gateway migrate``); what is made stays.
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from typing import Final

import psutil
import uvloop
from aiohttp import web

from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.timestamps import now_text
from libs.eventing import Outbox
from libs.fairness import FairSemaphore
from libs.outbound import parse_networks, public_or_within
from libs.persistence import Database, Presence
from libs.secrets import SecretCipher
from services.gateway.adapters.postgres.timeline import PostgresTimeline
from services.gateway.adapters.postgres.timeline_log import PostgresTimelineLog
from services.gateway.adapters.postgres.timeline_partitions import PostgresTimelinePartitions
from services.gateway.adapters.postgres.webhook_queue import PostgresWebhookQueue
from services.gateway.adapters.postgres.webhooks import PostgresWebhooks
from services.gateway.adapters.webhook_http import HttpWebhookClient
from services.gateway.adapters.webhook_metrics import PrometheusDeliveryMetrics
from services.gateway.administration import administration
from services.gateway.domain.idempotency import Write
from services.gateway.domain.timeline import TimelineEvent
from services.gateway.domain.webhooks import WebhookStatus
from services.gateway.use_cases.webhooks.webhook_attempts import WebhookAttempts
from services.gateway.use_cases.webhooks.webhook_delivery import DeliveryTools
from services.gateway.use_cases.webhooks.webhook_worker import WebhookWorker
from services.gateway.use_cases.webhooks.webhooks import WebhookRequest, Webhooks

_CIPHER: Final = SecretCipher([b"b" * 32])
_DATA: Final = json.dumps({"success": True, "response": {"content": "x" * 390}}).encode()
_BATCH: Final = 500
_now = partial(datetime.now, UTC)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("database_url")
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--webhooks", type=int, default=4)
    options = parser.parse_args()
    ours, theirs = multiprocessing.get_context("spawn").Pipe()
    receiver = multiprocessing.get_context("spawn").Process(target=receive, args=(theirs,), daemon=True)
    receiver.start()
    try:
        port = ours.recv()
        uvloop.run(deliver(options.database_url, f"http://127.0.0.1:{port}/", options.events, options.webhooks))
    finally:
        receiver.terminate()


def receive(connection: Connection) -> None:
    """The process of the receiver; tells its port."""

    async def serve() -> None:
        async def accept(request: web.BaseRequest) -> web.Response:
            await request.read()
            return web.Response()

        runner = web.ServerRunner(web.Server(accept))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        connection.send(runner.addresses[0][1])
        await asyncio.Event().wait()

    uvloop.run(serve())


async def deliver(database_url: str, url: str, events: int, webhooks: int) -> None:
    caller = await _caller(database_url)
    database = Database(database_url, name="benchmark", plan_once=True)
    await database.open()
    outbox, timeline = Outbox(database), PostgresTimeline(database)
    client = HttpWebhookClient(public_or_within(parse_networks("127.0.0.0/8")))
    maker = Webhooks(PostgresWebhooks(database, outbox), client, _CIPHER, _now)
    wanted = WebhookRequest(url=url, event_types=("turn.*",), description="", status=WebhookStatus.ENABLED)
    for _ in range(webhooks):
        await maker.create(Write(identity=caller, correlation_id=new_id()), wanted)
    await _happen(database, caller, events)
    attempts = WebhookAttempts(client, _CIPHER, PrometheusDeliveryMetrics())
    queue = PostgresWebhookQueue(database, outbox, Presence(database_url, name="benchmark"))
    tools = DeliveryTools(queue, timeline, attempts, FairSemaphore(256, each=256), _now)
    worker = WebhookWorker(tools, new_id())
    began, cpu = time.monotonic(), psutil.Process().cpu_times()
    tasks = [asyncio.create_task(run()) for run in (worker.renew, worker.run)]
    total = events * webhooks
    while await database.value("SELECT count(*) FROM webhook_deliveries WHERE status = 'delivered'") < total:
        await asyncio.sleep(0.1)
    seconds, used = time.monotonic() - began, psutil.Process().cpu_times()
    for task in tasks:
        task.cancel()
    await worker.stop(10)
    await client.close()
    await database.close()
    milliseconds = 1000 * (used.user + used.system - cpu.user - cpu.system) / total
    print(f"{total} deliveries in {seconds:.1f} s: {total / seconds:.0f}/s, {milliseconds:.2f} ms of CPU each")


async def _caller(database_url: str) -> Identity:
    async with administration(database_url) as gateway:
        name = f"benchmark-{new_id()}"
        await gateway.create_company(name)
        await gateway.create_user(name, "benchmark")
        key = (await gateway.create_key(name, "benchmark")).key
    return Identity(company_id=key.company_id, user_id=key.user_id, key_id=key.id, scopes=key.scopes)


async def _happen(database: Database, caller: Identity, events: int) -> None:
    """Events of turns, two of each."""
    partitions = PostgresTimelinePartitions(database)
    await partitions.make(_now().date())
    log = PostgresTimelineLog(database, partitions, now=_now)
    turns = [new_id() for _ in range((events + 1) // 2)]
    made = [_event(caller, turns[number // 2], number % 2) for number in range(events)]
    for first in range(0, len(made), _BATCH):
        await log.store(made[first : first + _BATCH], {})


def _event(caller: Identity, turn_id: str, number: int) -> TimelineEvent:
    return TimelineEvent(
        company_id=caller.company_id,
        id=new_id(),
        type=("turn.started", "turn.completed")[number],
        source="/aes/runtime",
        subject=turn_id,
        sequence=number + 1,
        time=now_text(),
        correlation_id=turn_id,
        turn_id=turn_id,
        owner_id=caller.user_id,
        data=_DATA,
    )


if __name__ == "__main__":
    main()
