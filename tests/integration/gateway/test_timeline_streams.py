"""The timeline over HTTP on two replicas and a real database: pages, streams, reconnecting."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import pytest_asyncio

from deploy.local.ports import choose_free
from libs.contracts.identifiers import new_id
from libs.contracts.timeline import TimelineFilter
from libs.persistence import Database
from services.timeline.adapters.postgres import timeline as adapter
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from services.timeline.adapters.postgres.timeline import PostgresTimeline
from tests.integration.gateway.conftest import IN_ONE_LOOP, Replicas, TwoGateways
from tests.support.tcp_proxy import TcpProxy
from tests.support.timeline import event
from tests.support.waiting import WITHIN, until

pytestmark = IN_ONE_LOOP
EXAMPLE = Path(__file__).parents[3] / "examples" / "follow_events.py"
SSE = {"accept": "text/event-stream"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(gateways: TwoGateways) -> AsyncIterator[Database]:
    url = gateways.timeline.settings.database_url.get_secret_value()
    database = Database(url, name="test", plan_once=True, timeout=30.0)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def log(database: Database) -> PostgresTimelineLog:
    return PostgresTimelineLog(database, PostgresTimelinePartitions(database), now=lambda: datetime.now(UTC))


async def followed(client: httpx.AsyncClient, **parameters: Any) -> AsyncIterator[dict[str, Any]]:
    last = parameters.pop("last_event_id", None)
    headers = SSE if last is None else {**SSE, "last-event-id": str(last)}
    async with client.stream("GET", "/events/", params=parameters, headers=headers) as answer:
        assert answer.status_code == 200
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                yield orjson.loads(line.removeprefix("data: "))


async def take(client: httpx.AsyncClient, count: int, **parameters: Any) -> list[int]:
    found: list[int] = []
    async with asyncio.timeout(WITHIN), aclosing(followed(client, **parameters)) as events:
        async for each in events:
            found.append(each["position"])
            if len(found) == count:
                break
    return found


@pytest.mark.rule(31)
async def test_readers_who_change_replicas_see_each_event_once(replicas: Replicas, log: PostgresTimelineLog) -> None:
    company, session = replicas.company_id, new_id()
    wandered: list[int] = []

    async def fill() -> None:
        for number in range(60):
            # Neither is the log full before the readers come, nor do they wait for all of it.
            await until(lambda number=number: len(wandered) > number - 6)
            await log.store([event(company_id=company, session_id=session, sequence=number + 1)], {})
            await log.store([event(company_id="another")], {})

    async def wander() -> None:
        """Reads a few events on one replica, then goes on at the other one."""
        while len(wandered) < 60:
            client, last = replicas.clients[len(wandered) % 2], wandered[-1] if wandered else own
            wandered.extend(await take(client, 3, last_event_id=last, session_id=session))

    own = (await replicas.clients[0].get("/events/")).json()["next"]
    filling, wandering = asyncio.create_task(fill()), asyncio.create_task(wander())
    staying = asyncio.create_task(take(replicas.clients[1], 60, after=own, session_id=session))
    await asyncio.gather(filling, wandering)
    # The event of the clients' key may come as late as this.
    page = (await replicas.clients[1].get("/events/", params={"after": own, "limit": 200})).json()["events"]
    assert [each["position"] for each in page] == list(range(own + 1, own + len(page) + 1))
    expected = [each["position"] for each in page if each.get("session_id") == session]
    assert len(expected) == 60
    assert wandered == expected
    assert await staying == expected


async def test_pages_that_look_at_many_events_go_on_where_they_stopped(
    database: Database, log: PostgresTimelineLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "MOST_LOOKED_AT", 10)
    company = new_id()
    for number in range(64):
        owner = "me" if number % 25 == 0 else "another"
        kind = "turn.failed" if number % 16 == 0 else "turn.started"
        await log.store([event(company_id=company, type=kind, owner_id=owner)], {})
    timeline = PostgresTimeline(database)
    for where, expected in (
        (TimelineFilter(company_id=company, types=("turn.failed",)), [1, 17, 33, 49]),
        (TimelineFilter(company_id=company, types=("turn.f*", "agent.*")), [1, 17, 33, 49]),
        (TimelineFilter(company_id=company, visible_to="me"), [1, 26, 51]),
        (TimelineFilter(company_id=company, visible_to="me", types=("turn.failed",)), [1]),
        (TimelineFilter(company_id=company, types=("turn.*",)), list(range(1, 65))),
        (TimelineFilter(company_id=company), list(range(1, 65))),
    ):
        for limit in (1, 3, 200):
            found, after, has_more = [], 0, True
            while has_more:
                page = await timeline.page(where, after=after, limit=limit)
                assert len(page.events) <= limit
                found += [each.position for each in page.events]
                assert page.next > after or not page.has_more
                after, has_more = page.next, page.has_more
            assert found == expected, (where, limit)


async def test_the_example_goes_on_after_lost_connections(replicas: Replicas, log: PostgresTimelineLog) -> None:
    company, label = replicas.company_id, new_id()

    async def happen(kind: str) -> None:
        await log.store([event(company_id=company, correlation_id=label, type=kind)], {})

    async with TcpProxy(port=choose_free(), target_port=replicas.services[0].settings.port) as network:
        await happen("session.created")
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(EXAMPLE), f"http://127.0.0.1:{network.port}",
            *("--correlation-id", label, "--after", "0", "--until", "turn.completed"),
            env={**os.environ, "AES_API_KEY": replicas.secret}, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        lines = [await process.stdout.readline()]
        await network.cut()
        await happen("turn.started")
        await network.restore()
        lines.append(await process.stdout.readline())
        await network.cut()
        await network.restore()
        await happen("turn.completed")
        lines.append(await process.stdout.readline())
        assert await process.wait() == 0
    assert [line.split()[2] for line in lines] == [b"session.created", b"turn.started", b"turn.completed"]
