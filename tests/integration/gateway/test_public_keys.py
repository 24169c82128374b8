"""Public keys and tokens on two replicas: created on one, valid on the other, ended on both."""

from typing import Any

import httpx
import pytest
from psycopg import AsyncConnection

from libs.contracts.identifiers import new_id
from libs.contracts.resources.agents import Agent
from tests.integration.gateway.conftest import IN_ONE_LOOP, Replicas
from tests.support.public_agents import SHOP, stored_agent
from tests.support.waiting import until

pytestmark = IN_ONE_LOOP
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
