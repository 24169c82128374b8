"""WebSockets of a session on two replicas, with a client of their own and a real server, bus and database."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import orjson
import pytest
import pytest_asyncio
from websockets.asyncio.client import ClientConnection, connect

from libs.persistence import Database
from services.gateway.entrypoints.rest import session_socket
from services.timeline.adapters.postgres.log import PostgresTimelineLog
from services.timeline.adapters.postgres.partitions import PostgresTimelinePartitions
from tests.integration.gateway.conftest import IN_ONE_LOOP, Replicas
from tests.integration.gateway.upstream import HELD, SESSION
from tests.support.timeline import event
from tests.support.waiting import WITHIN, until

pytestmark = IN_ONE_LOOP
EXECUTE = f"/runtime/{SESSION}/execute/"


@pytest_asyncio.fixture(loop_scope="module")
async def log(stoppable_replicas: Replicas) -> AsyncIterator[PostgresTimelineLog]:
    database = Database(stoppable_replicas.timeline.settings.database_url.get_secret_value(), name="test", timeout=30.0)
    await database.open()
    yield PostgresTimelineLog(database, PostgresTimelinePartitions(database), now=lambda: datetime.now(UTC))
    await database.close()


def socket_on(replicas: Replicas, number: int, **how: Any) -> connect:
    how = {"additional_headers": {"x-api-key": replicas.secret}, **how}
    port = replicas.services[number].settings.port
    return connect(f"ws://127.0.0.1:{port}/api/v1/ws/sessions/{SESSION}/", proxy=None, open_timeout=WITHIN, **how)


async def receive(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(WITHIN):
        message: dict[str, Any] = orjson.loads(await socket.recv())
    return message


async def read_to(socket: ClientConnection, last: str) -> list[dict[str, Any]]:
    """The messages up to one of that type."""
    found = [await receive(socket)]
    while found[-1]["type"] != last:
        found.append(await receive(socket))
    return found


async def closed(socket: ClientConnection) -> int:
    async with asyncio.timeout(WITHIN):
        await socket.wait_closed()
    assert socket.close_code is not None
    return socket.close_code


async def test_connections_open_with_every_credential_and_close_with_reasons(replicas: Replicas) -> None:
    token = (await replicas.clients[0].post("/auth/token/")).json()["access_token"]
    protocols: Any = ["aes.v1", f"aes.token.{token}"]
    for how in (
        {},
        {"additional_headers": {"authorization": f"Bearer {token}"}},
        {"additional_headers": {}, "subprotocols": protocols},
    ):
        async with socket_on(replicas, 1, **how) as socket:
            await socket.send('{"type": "ping", "ref": "1"}')
            assert await receive(socket) == {"type": "pong", "ref": "1"}
            assert socket.subprotocol == ("aes.v1" if "subprotocols" in how else None)
    async with socket_on(replicas, 0, additional_headers={"x-api-key": "aes_none"}) as refused:
        assert await closed(refused) == 4401


async def test_limits_of_the_server(replicas: Replicas) -> None:
    async with socket_on(replicas, 0) as socket:
        await socket.send("x" * 500_000)
        assert (await receive(socket))["error"]["type"] == "invalid_request_error"
        await socket.send("x" * 600_000)
        assert await closed(socket) == 1009


async def test_a_key_that_is_revoked_anywhere_closes_its_sockets(replicas: Replicas) -> None:
    made = (await replicas.clients[0].post("/api-keys/", json={"name": "short-lived"})).json()
    async with socket_on(replicas, 1, additional_headers={"x-api-key": made["secret"]}) as socket:
        await socket.send('{"type": "ping"}')
        await receive(socket)
        assert (await replicas.clients[0].delete(f"/api-keys/{made['id']}/")).status_code == 204
        assert await closed(socket) == 4401


async def test_a_replica_that_stops_closes_its_sockets_and_the_other_one_goes_on(
    stoppable_replicas: Replicas, log: PostgresTimelineLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    replicas = stoppable_replicas

    async def happen(kind: str) -> None:
        await log.store([event(company_id=replicas.company_id, session_id=SESSION, type=kind)], {})

    async with socket_on(replicas, 0) as socket:
        await happen("artifact.uploaded")
        seen = await receive(socket)
        replicas.services[0].stop()
        assert await closed(socket) == 1012
    await happen("artifact.ready")
    # Until the client has said where it goes on nothing is sent, however late that comes.
    monkeypatch.setattr(session_socket, "_SUBSCRIBE_SECONDS", 3600.0)
    async with socket_on(replicas, 1) as socket:
        await socket.send(orjson.dumps({"type": "subscribe", "after": seen["id"]}).decode())
        await happen("artifact.deleted")
        assert [(await receive(socket))["type"] for _ in range(2)] == ["artifact.ready", "artifact.deleted"]


async def test_readers_of_a_session_see_the_same_whoever_began_the_turn(replicas: Replicas) -> None:
    """Two sockets and a stream of events, on two replicas; turns begun over REST and over a socket."""
    followed: list[tuple[int, str]] = []

    async def follow(client: httpx.AsyncClient) -> None:
        # From where the log is now, whenever the server gets to it.
        headers = {"accept": "text/event-stream", "last-event-id": str(began)}
        async with client.stream("GET", "/events/", params={"session_id": SESSION}, headers=headers) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    shown = orjson.loads(line.removeprefix("data: "))
                    followed.append((shown["position"], shown["type"]))

    async with socket_on(replicas, 0) as first, socket_on(replicas, 1) as second:
        began = (await replicas.clients[1].get("/events/")).json()["next"]
        following = asyncio.create_task(follow(replicas.clients[1]))
        await first.send(orjson.dumps({"type": "execute", "content": "by socket", "ref": "mine"}).decode())
        told = [await read_to(each, "turn.completed") for each in (first, second)]
        asked = asyncio.create_task(replicas.clients[1].post(EXECUTE, json={"content": HELD}))
        await until(lambda: len(replicas.work.turns) == 2)
        await replicas.upstream.finish(replicas.work.turns[1], "by REST")
        for each, own in zip(told, (first, second), strict=True):
            each += await read_to(own, "turn.completed")
        assert (await asked).json()["response"]["content"] == "by REST"
        await until(lambda: len(followed) == 4)
        following.cancel()
    names = [[(message["type"], message["id"], message["data"]) for message in each] for each in told]
    assert names[0] == names[1]
    durable = [(int(place.split("/")[0]), name) for name, place, _ in names[0] if "output_text" not in name]
    assert durable == followed
    assert [message.get("ref") for message in told[0]] == ["mine"] * (len(told[0]) - len(told[0]) // 2) + [None] * (
        len(told[0]) // 2
    )
    assert all("ref" not in message for message in told[1])
