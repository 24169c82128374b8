"""Calls of a toolset's tools through the whole system, and what a crash in their middle costs at the target."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import httpx
import orjson
import pytest

from tests.e2e.api import PATIENT, Api, unique
from tests.e2e.event_log import EventLog
from tests.e2e.running_stack import RECEIVERS, RunningStack
from tests.support.hostile_target import HostileTarget, Taken, answering, hostile_target
from tests.support.waiting import until

ORDERED = "openai:stub-ordered"
PARAMETERS = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


@pytest.fixture
async def target() -> AsyncIterator[HostileTarget]:
    async with hostile_target(RECEIVERS) as target:
        yield target


async def _toolset(api: Api, target: HostileTarget, **fields: Any) -> str:
    name = unique("desk").lower()
    read = {"name": "read", "method": "GET", "url": target.url("/tickets/{number}"), "parameters": PARAMETERS}
    pay = {"name": "pay", "method": "POST", "url": target.url("/payments/{number}"), "parameters": PARAMETERS}
    await api.create("/toolsets/", {"name": name, "type": "http", "tools": [{**read, **fields}, {**pay, **fields}]})
    return name


def _order(toolset: str, tool: str, number: int = 7) -> str:
    """The user's message, by which the model calls the tool under the name that it was shown."""
    return orjson.dumps({"tool": f"{toolset}_{tool}", "arguments": {"number": number}}).decode()


async def test_a_turn_calls_a_tool_of_a_toolset(api: Api, target: HostileTarget, event_log: EventLog) -> None:
    secret = unique("the-secret")
    stored = await api.http.put("/secrets/desk-key/", json={"value": secret})
    assert stored.status_code in (200, 201), stored.text
    name = await _toolset(api, target, headers={"Authorization": "Bearer ${secret:desk-key}"})
    target.answers = {"/tickets/7": answering(orjson.dumps({"ticket": 7, "heard": f"Bearer {secret}"}))}
    session = await api.session(ORDERED, tools=[f"{name}.*", "calculator"])
    label = unique("turn")

    reply = (await api.execute(session, _order(name, "read"), x_correlation_id=label)).json()

    (call,) = reply["response"]["tool_calls"]
    assert (call["name"], call["status"], call["arguments"]) == (f"{name}.read", "completed", {"number": 7})
    assert orjson.loads(call["output"]) == {"ticket": 7, "heard": "Bearer [secret]"}
    assert target.taken[0].headers["authorization"] == f"Bearer {secret}"
    assert target.taken[0].headers["idempotency-key"] == f"{reply['turn_id']}.{call['id']}"
    turn = (await api.http.get(f"/runtime/{session}/turns/{reply['turn_id']}/")).json()
    assert turn["toolsets"] == [{"name": name, "version": 1}]
    assert (
        secret not in orjson.dumps([event.__dict__ for event in await event_log.ended([label])], default=str).decode()
    )
    assert secret not in orjson.dumps(turn).decode()


async def test_a_turn_calls_an_operation_of_an_openapi_document(api: Api, target: HostileTarget) -> None:
    target.answers = {"/tickets/7": answering(b'{"ticket": 7}')}
    full = {"name": "full", "in": "query", "schema": {"type": "boolean"}}
    number = {"name": "number", "in": "path", "required": True, "schema": {"type": "integer"}}
    read = {"operationId": "read", "summary": "Reads a ticket.", "parameters": [number, full], "responses": {}}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "Desk", "version": "1"},
        "servers": [{"url": target.url("")}],
        "paths": {"/tickets/{number}": {"get": read}},
    }
    name = unique("desk").lower()
    await api.create("/toolsets/", {"name": name, "type": "openapi", "document": document})
    order = {"tool": f"{name}_read", "arguments": {"number": 7, "full": True}}

    reply = (await api.execute(await api.session(ORDERED, tools=[f"{name}.read"]), orjson.dumps(order).decode())).json()

    (call,) = reply["response"]["tool_calls"]
    assert (call["name"], call["status"], orjson.loads(call["output"])) == (f"{name}.read", "completed", {"ticket": 7})
    assert [request.path for request in target.taken] == ["/tickets/7?full=true"]


@pytest.mark.rule(34)
@pytest.mark.crash("runtime")
async def test_a_call_that_the_runtime_was_killed_in(breakable: RunningStack, api: Api, target: HostileTarget) -> None:
    await _killed_in_the_middle(breakable, api, target, calls=8)


async def _killed_in_the_middle(breakable: RunningStack, api: Api, target: HostileTarget, *, calls: int) -> None:
    """Half of the calls are of the tool that is safe to repeat. The target counts them by key."""
    name = await _toolset(api, target, timeout_seconds=600)
    before, released = len(target.taken), asyncio.Event()

    async def held(_request: Taken, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        await answering(b'"done"')(_request, writer)

    target.answers = {f"/{place}/{number}": held for place in ("tickets", "payments") for number in range(calls)}
    sessions = await api.sessions(calls, ORDERED, tools=[f"{name}.*"])
    tools = ["read", "pay"] * (calls // 2)
    orders = [_order(name, tool, number) for number, tool in enumerate(tools)]
    callers = [
        asyncio.create_task(api.execute(session, order, idempotency_key=unique("key"), prefer=PATIENT))
        for session, order in zip(sessions, orders, strict=True)
    ]

    async def all_under_way() -> bool:
        return len(target.taken) - before == calls

    await until(all_under_way)
    killed = breakable.kill("runtime")
    released.set()
    await asyncio.to_thread(breakable.wait_replaced, "runtime", killed)
    replies: list[httpx.Response] = await asyncio.gather(*callers)

    taken = Counter(request.headers["idempotency-key"] for request in target.taken[before:])
    for reply, tool in zip(replies, tools, strict=True):
        assert reply.status_code == 200, reply.text
        (call,) = reply.json()["response"]["tool_calls"]
        times = taken.pop(f"{reply.json()['turn_id']}.{call['id']}")
        if tool == "pay":
            assert (call["status"], times) == ("unknown", 1)
            assert "unknown whether the call was executed" in call["output"]
        else:
            assert (call["status"], times, call["output"]) == ("completed", 2, '"done"')
    assert not taken, "no call under any other key"
