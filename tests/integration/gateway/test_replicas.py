"""Writes over the real bus, repeated and followed on any replica."""

import asyncio

import httpx
import pytest
from psycopg import AsyncConnection

from libs.contracts.identifiers import new_id
from tests.integration.gateway.conftest import IN_ONE_LOOP, Replicas
from tests.integration.gateway.upstream import HELD
from tests.support.gateway import error_of
from tests.support.waiting import until

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
