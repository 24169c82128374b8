"""Usage with its cost, and a budget that ends turns, however they come."""

import asyncio
from decimal import Decimal
from typing import Any

import orjson
import pytest
from websockets.asyncio.client import connect

from services.gateway.domain.accounts import ALL_SCOPES
from tests.e2e.api import MODEL, Api, new_client
from tests.e2e.conftest import Caller, make_caller, make_company
from tests.e2e.running_stack import RunningStack
from tests.support.waiting import WITHIN, until


@pytest.fixture
def customer(stack: RunningStack) -> Caller:
    """A company of its own, since everything that it does is added up."""
    return make_caller(stack, make_company(stack), "ada", ALL_SCOPES)


async def usage(api: Api, **query: str) -> dict[str, Any]:
    reply = await api.persistently("GET", "/usage/", params=query)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def turns_counted(api: Api, number: int) -> dict[str, Any]:
    async def look() -> dict[str, Any] | None:
        report = await usage(api, group_by="user,key,model")
        return report if report["totals"]["turns"] >= number else None

    return await until(look)


async def test_usage_with_its_cost_and_a_budget_that_ends_turns(stack: RunningStack, customer: Caller) -> None:
    stack.aes("prices", "set", MODEL, "--input", "0.5", "--output", "2")
    async with new_client(stack.base_url, customer.secret) as client:
        api = Api(client)

        async def priced() -> dict[str, Any] | None:
            # Workers follow a price within seconds.
            session = await api.session()
            reply = (await api.execute(session, "hello")).json()
            return reply if reply["usage"]["cost"] is not None else None

        reply = await until(priced)
        cost = Decimal(reply["usage"]["cost"])
        used = reply["usage"]
        assert cost == (Decimal("0.5") * used["input_tokens"] + 2 * used["output_tokens"]) / 1_000_000
        report = await turns_counted(api, 1)
        [line] = report["usage"]
        assert (line["user_id"], line["key_id"], line["model"]) == (customer.user_id, customer.key_id, MODEL)
        made = await client.post("/budgets/", json={"period": "total", "tokens": 1, "key_id": customer.key_id})
        assert made.status_code == 201, made.text
        session = await api.session()
        assert (await api.execute(session, "the last one")).status_code == 200
        for accept in ("application/json", "text/event-stream"):
            refused = await api.execute(session, "one more", accept=accept)
            assert refused.status_code == 429, refused.text
            error = refused.json()["error"]
            assert (error["type"], error["details"][0]["budget"]["budget_id"]) == ("budget_exceeded", made.json()["id"])
        url = f"{stack.base_url.replace('http', 'ws', 1)}/api/v1/ws/sessions/{session}/"
        async with connect(
            url, additional_headers={"x-api-key": customer.secret}, proxy=None, open_timeout=WITHIN
        ) as socket:
            await socket.send(orjson.dumps({"type": "execute", "content": "by a socket", "ref": "1"}).decode())
            async with asyncio.timeout(WITHIN):
                refused_turn = orjson.loads(await socket.recv())
                while refused_turn["type"] != "error":
                    refused_turn = orjson.loads(await socket.recv())
        assert (refused_turn["ref"], refused_turn["error"]["type"]) == ("1", "budget_exceeded")
        assert refused_turn["error"]["details"][0]["budget"]["budget_id"] == made.json()["id"]
        events = await until(lambda: _events(api, "budget.exceeded"))
        assert [event["subject"] for event in events] == [made.json()["id"]]
        raised = await client.patch(made.headers["location"].removeprefix("/api/v1"), json={"tokens": 1_000_000})
        assert raised.json()["exceeded"] is False
        assert (await api.execute(session, "again")).status_code == 200
    stack.aes("prices", "remove", MODEL)


async def _events(api: Api, name: str) -> list[dict[str, Any]]:
    reply = await api.http.get("/events/", params={"type": name})
    found: list[dict[str, Any]] = reply.json()["events"]
    return found
