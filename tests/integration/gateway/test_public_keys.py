"""Public keys and tokens on two replicas: created on one, valid on the other, ended on both."""

from typing import Any

import httpx
from psycopg import AsyncConnection

from libs.contracts.api.agents import Agent
from tests.integration.gateway.conftest import Replicas, eventually
from tests.support.public_agents import AGENT_ID, SHOP, stored_agent

ORIGIN = {"Origin": SHOP, "x-api-key": ""}


def opened(replicas: Replicas, company: str) -> Agent:
    agent = Agent(**stored_agent(company=company))
    replicas.upstream.agents[agent.agent_key] = agent
    return agent


async def company_of(replicas: Replicas) -> str:
    return str((await replicas.clients[0].get("/me/")).json()["company_id"])


async def open_session(client: httpx.AsyncClient, **key: str) -> httpx.Response:
    return await client.post("/sessions/", json={}, params=key, headers=ORIGIN)


async def test_a_connection_works_everywhere_until_it_is_deleted_anywhere(replicas: Replicas) -> None:
    opened(replicas, await company_of(replicas))
    first, second = replicas.clients
    body: dict[str, Any] = {"agent_id": AGENT_ID, "allowed_origins": [SHOP], "quota": 100}
    made = (await first.post("/connections/", json=body, headers={"Idempotency-Key": "once"})).json()
    again = (await second.post("/connections/", json=body, headers={"Idempotency-Key": "once"})).json()
    assert made == again == (await second.get(f"/connections/{made['id']}/")).json()
    assert (await second.get("/connections/")).json()["total"] == 1
    for client in replicas.clients:
        assert (await open_session(client, connection_key=made["connection_key"])).status_code == 201
    assert (await first.delete(f"/connections/{made['id']}/")).status_code == 204

    async def refused() -> bool:
        return (await open_session(second, connection_key=made["connection_key"])).status_code == 401

    await eventually(refused, 25)
    async with await AsyncConnection.connect(replicas.database_url) as connection:
        told = await connection.execute("SELECT type FROM outbox WHERE subject = %s ORDER BY id", (made["id"],))
        assert [row[0] for row in await told.fetchall()] == [
            "aes.gateway.connection.created.v1",
            "aes.gateway.connection.deleted.v1",
        ]


async def test_a_change_of_an_agent_takes_effect_before_the_cache_expires(replicas: Replicas) -> None:
    agent = opened(replicas, await company_of(replicas))
    client = replicas.clients[1]
    assert (await open_session(client, agent_key="support")).status_code == 201
    await replicas.upstream.close_to_the_public(agent)

    async def refused() -> bool:
        return (await open_session(client, agent_key="support")).status_code == 401

    await eventually(refused, 25)
