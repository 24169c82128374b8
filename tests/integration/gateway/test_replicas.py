"""Writes over the real bus and public keys: made on one replica, repeated, followed and ended on any."""

import asyncio
from typing import Any

import httpx
import pytest
from psycopg import AsyncConnection

from libs.contracts.identifiers import new_id
from libs.contracts.resources.agents import Agent
from tests.integration.gateway.conftest import IN_ONE_LOOP, Replicas
from tests.integration.gateway.upstream import HELD
from tests.support.gateway import error_of
from tests.support.public_agents import SHOP, stored_agent
from tests.support.waiting import until
from tests.unit.gateway.test_protocols import AGENT

pytestmark = IN_ONE_LOOP
EXECUTE = f"/runtime/{new_id()}/execute/"


async def test_plain_executes_leave_nothing_in_the_gateways_database(replicas: Replicas) -> None:
    async with await AsyncConnection.connect(replicas.database_url) as connection:
        statement = "SELECT (SELECT count(*) FROM idempotency_keys), (SELECT count(*) FROM outbox)"
        before = await (await connection.execute(statement)).fetchone()
        await connection.commit()
        assert (await replicas.clients[0].post(EXECUTE, json={"content": "hello"})).status_code == 200
        assert await (await connection.execute(statement)).fetchone() == before


async def test_a_stream_and_a_repeat_on_the_other_replica_end_alike(replicas: Replicas) -> None:
    headers = {"Idempotency-Key": "once", "X-Correlation-ID": "first"}
    body = {"content": HELD}
    names: list[str] = []

    async def follow() -> None:
        wanted = {**headers, "Accept": "text/event-stream"}
        async with replicas.clients[0].stream("POST", EXECUTE, json=body, headers=wanted) as response:
            async for line in response.aiter_lines():
                if line.startswith("event: "):
                    names.append(line.removeprefix("event: "))

    following = asyncio.create_task(follow())
    await until(lambda: names == ["turn.started"])
    turn_id = replicas.work.turns[0]
    background = await replicas.clients[1].post(
        EXECUTE, json=body, headers={**headers, "X-Correlation-ID": "second", "Prefer": "respond-async"}
    )
    assert (background.status_code, background.json()["turn_id"]) == (202, turn_id)
    assert background.headers["x-correlation-id"] == "first"
    waiting = asyncio.create_task(replicas.clients[1].post(EXECUTE, json=body, headers=headers))
    await replicas.upstream.finish(turn_id, "done")
    assert (await waiting).json()["response"]["content"] == "done"
    await following
    # This upstream sends no pieces: the gateway makes one of the reply.
    assert names == ["turn.started", "turn.output_text.delta", "turn.output_text.done", "turn.completed"]
    late = await replicas.clients[0].post(EXECUTE, json=body, headers=headers)
    assert late.json() == (await waiting).json()
    assert replicas.work.turns == [turn_id]


@pytest.mark.rule(5)
async def test_many_repeats_at_once_are_one_turn(replicas: Replicas) -> None:
    async def execute(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post(EXECUTE, json={"content": "hello"}, headers={"Idempotency-Key": "race"})

    answers = await asyncio.gather(*(execute(replicas.clients[n % 2]) for n in range(20)))
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(replicas.work.turns) == 1


async def test_a_closed_connection_does_not_stop_the_turn(replicas: Replicas) -> None:
    headers = {"Idempotency-Key": "left"}
    calling = asyncio.create_task(replicas.clients[0].post(EXECUTE, json={"content": HELD}, headers=headers))
    await until(lambda: replicas.work.turns)
    calling.cancel()
    await asyncio.gather(calling, return_exceptions=True)
    await replicas.upstream.finish(replicas.work.turns[0], "finished all the same")
    later = await replicas.clients[0].post(EXECUTE, json={"content": HELD}, headers=headers)
    assert later.json()["response"]["content"] == "finished all the same"


async def test_those_who_wait_when_a_replica_stops_are_told_how_to_go_on(stoppable_replicas: Replicas) -> None:
    headers = {"Idempotency-Key": "restart"}
    waiting = asyncio.create_task(stoppable_replicas.clients[0].post(EXECUTE, json={"content": HELD}, headers=headers))
    await until(lambda: stoppable_replicas.work.turns)
    stoppable_replicas.services[0].stop()
    told = await waiting
    assert (told.status_code, error_of(told)["type"]) == (503, "service_unavailable")
    assert "may still be executed" in error_of(told)["message"]
    going_on = asyncio.create_task(stoppable_replicas.clients[1].post(EXECUTE, json={"content": HELD}, headers=headers))
    await stoppable_replicas.upstream.finish(stoppable_replicas.work.turns[0], "done")
    assert (await going_on).json()["response"]["content"] == "done"


@pytest.mark.rule(21)
@pytest.mark.usefixtures("lasting_cache")
async def test_a_revocation_reaches_the_other_replica_before_its_cache_expires(replicas: Replicas) -> None:
    made = (await replicas.clients[0].post("/api-keys/", json={"name": "short-lived"})).json()
    headers = {"x-api-key": made["secret"]}
    for client in replicas.clients:
        assert (await client.get("/me/", headers=headers)).status_code == 200
    assert (await replicas.clients[0].delete(f"/api-keys/{made['id']}/")).status_code == 204

    async def refused() -> bool:
        return (await replicas.clients[1].get("/me/", headers=headers)).status_code == 401

    await until(refused)


async def test_two_rotations_at_once_make_one_successor(replicas: Replicas) -> None:
    made = (await replicas.clients[0].post("/api-keys/", json={})).json()
    path = f"/api-keys/{made['id']}/rotate/"
    answers = await asyncio.gather(*(replicas.clients[n % 2].post(path) for n in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409, 409]
    keys = (await replicas.clients[0].get("/api-keys/")).json()["api_keys"]
    assert len(keys) == 3
    assert next(key["successor_id"] for key in keys if key["id"] == made["id"]) in {key["id"] for key in keys}


async def test_creations_of_a_key_with_one_idempotency_key_make_one(replicas: Replicas) -> None:
    async def create(client: httpx.AsyncClient) -> httpx.Response:
        return await client.post("/api-keys/", json={"name": "one"}, headers={"Idempotency-Key": "once"})

    answers = await asyncio.gather(*(create(replicas.clients[n % 2]) for n in range(6)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409, 409, 409]
    assert (await replicas.clients[0].get("/api-keys/")).json()["total"] == 2


ORIGIN = {"Origin": SHOP, "x-api-key": ""}


def opened(replicas: Replicas) -> Agent:
    """A public agent of the test's own."""
    agent = Agent(**stored_agent(company=replicas.company_id, id=new_id(), agent_key=f"support-{new_id()}"))
    replicas.upstream.agents[agent.agent_key] = agent
    return agent


async def open_session(client: httpx.AsyncClient, **key: str) -> httpx.Response:
    return await client.post("/sessions/", json={}, params=key, headers=ORIGIN)


@pytest.mark.usefixtures("lasting_cache")
async def test_a_connection_works_everywhere_until_it_is_deleted_anywhere(replicas: Replicas) -> None:
    agent = opened(replicas)
    first, second = replicas.clients
    body: dict[str, Any] = {"agent_id": agent.id, "allowed_origins": [SHOP], "quota": 100}
    made = (await first.post("/connections/", json=body, headers={"Idempotency-Key": "once"})).json()
    again = (await second.post("/connections/", json=body, headers={"Idempotency-Key": "once"})).json()
    assert made == again == (await second.get(f"/connections/{made['id']}/")).json()
    assert (await second.get("/connections/")).json()["total"] == 1
    for client in replicas.clients:
        assert (await open_session(client, connection_key=made["connection_key"])).status_code == 201
    assert (await first.delete(f"/connections/{made['id']}/")).status_code == 204

    async def refused() -> bool:
        return (await open_session(second, connection_key=made["connection_key"])).status_code == 401

    await until(refused)
    async with await AsyncConnection.connect(replicas.database_url) as connection:
        told = await connection.execute("SELECT type FROM outbox WHERE subject = %s ORDER BY id", (made["id"],))
        assert [row[0] for row in await told.fetchall()] == [
            "aes.gateway.connection.created.v1",
            "aes.gateway.connection.deleted.v1",
        ]


@pytest.mark.usefixtures("lasting_cache")
async def test_a_change_of_an_agent_takes_effect_before_the_cache_expires(replicas: Replicas) -> None:
    agent = opened(replicas)
    client = replicas.clients[1]
    assert (await open_session(client, agent_key=agent.agent_key)).status_code == 201
    await replicas.upstream.close_to_the_public(agent)

    async def refused() -> bool:
        return (await open_session(client, agent_key=agent.agent_key)).status_code == 401

    await until(refused)


_VERSION = "2025-06-18"


def mcp_of(replicas: Replicas, number: int, connection: str) -> httpx.AsyncClient:
    """A client of the protocol's versions with connections, on one of the gateways."""
    headers = {
        "Authorization": f"Bearer {replicas.secret}",
        "Accept": "application/json, text/event-stream",
        "mcp-session-id": connection,
        "mcp-protocol-version": _VERSION,
    }
    port = replicas.services[number].settings.port
    return httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60, trust_env=False)


async def test_another_gateway_cancels_the_turn_of_a_request(replicas: Replicas) -> None:
    replicas.upstream.agents["support"] = Agent.model_validate({**AGENT, "company": replicas.company_id})
    params = {"name": "ask_agent", "arguments": {"agent_key": "support", "message": HELD}}
    call = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params}

    async with (
        mcp_of(replicas, 0, "mine") as first,
        mcp_of(replicas, 1, "mine") as second,
        mcp_of(replicas, 1, "another") as stranger,
    ):
        asking = asyncio.create_task(first.post("/mcp", json=call))
        await until(lambda: replicas.work.turns)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
        # The number of a request means nothing on another connection.
        assert (await stranger.post("/mcp", json=cancelled)).status_code == 202
        assert (await second.post("/mcp", json=cancelled)).status_code == 202
        answer = await asking
    assert "The turn was cancelled." in answer.text
    assert replicas.work.cancelled == replicas.work.turns
