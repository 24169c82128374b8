"""Turns that wait for approvals and for results of their callers' tools."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import psutil
import pytest

from deploy.local.ports import choose_free
from tests.e2e.api import Api, new_client, unique
from tests.e2e.running_stack import ROOT, RunningStack
from tests.e2e.turn_reader import Reader
from tests.support.waiting import WITHIN, until, wait_until

ORDER_STATUS = {
    "name": "order_status",
    "description": "Looks up an order in the shop's own system.",
    "parameters": {"type": "object", "properties": {"order": {"type": "integer"}}},
}
BOTH = "openai:stub-tool-client"
GUARDED: dict[str, Any] = {
    "tools": ["calculator"],
    "tool_policies": {"calculator": {"approval": "always"}},
    "client_tools": [ORDER_STATUS],
}


def path_of(session: str, turn: str, action: dict[str, Any]) -> str:
    return f"/runtime/{session}/turns/{turn}/actions/{action['action_id']}/"


def by_kind(actions: list[dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The approval and the result that a turn of ``BOTH`` needs."""
    found = {action["kind"]: action for action in actions}
    assert len(actions) == len(found) == 2
    return found["approval"], found["tool_result"]


@contextmanager
def second_gateway(stack: RunningStack) -> Iterator[str]:
    """The address of another replica, beside the stack's own."""
    running = psutil.Process(stack.pid("gateway"))
    port = choose_free()
    environment = {**running.environ(), "AES_GATEWAY_PORT": str(port)}
    process = subprocess.Popen(running.cmdline(), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    base_url = f"http://127.0.0.1:{port}"

    def ready() -> bool:
        try:
            return httpx.get(f"{base_url}/health/ready", timeout=5, trust_env=False).status_code == 200
        except httpx.TransportError:
            assert process.poll() is None
            return False

    try:
        wait_until(ready)
        yield base_url
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def elsewhere(stack: RunningStack) -> Iterator[str]:
    with second_gateway(stack) as base_url:
        yield base_url


@pytest.fixture
async def replica(stack: RunningStack, elsewhere: str) -> AsyncIterator[Api]:
    async with new_client(elsewhere, stack.api_key) as client:
        yield Api(client)


@pytest.mark.crash("gateway and runtime during a wait")
async def test_a_wait_survives_the_death_of_gateway_and_runtime_and_its_streams_go_on(
    breakable: RunningStack, api: Api, replica: Api
) -> None:
    session = await api.session(BOTH, **GUARDED)
    reader, other = Reader(api, session), Reader(replica, session)
    executing = asyncio.create_task(reader.execute(unique("refund")))

    async def required() -> bool:
        return reader.names.count("turn.action_required") == 2

    await until(required)
    other.turn_id = reader.turn_id
    following = asyncio.create_task(other.follow())
    # Its stream is open; one that is opened while the runtime is away is refused until that is back.
    await until(lambda: other.names.count("turn.action_required") == 2)
    for part in ("runtime", "gateway"):
        killed = await asyncio.to_thread(breakable.kill, part)
        await asyncio.to_thread(breakable.wait_replaced, part, killed)
    listed = (await api.http.get("/actions/", params={"session_id": session})).json()["actions"]
    for action, answer in zip(by_kind(listed), ({"decision": "approve"}, {"output": "paid"}), strict=True):
        answered = await api.http.post(path_of(session, reader.turn_id, action), json=answer)
        assert answered.status_code == 200, answered.text
    await asyncio.gather(executing, following)
    assert (reader.breaks > 0, other.breaks) == (True, 0)
    for each in (reader, other):
        each.check()
        assert [name for name in each.names if "tool_call" not in name] == [
            "turn.started", *2 * ["turn.action_required"], *2 * ["turn.action_resolved"], "turn.completed",
        ]  # fmt: skip
        assert each.names.count("turn.tool_call.completed") == 2


@pytest.mark.parametrize(("said", "outcome"), [("y", "3 * 245 = 735"), ("n", "The user denied the call.")])
async def test_the_example_runs_its_tool_and_asks_before_it_allows_a_call(
    stack: RunningStack, said: str, outcome: str
) -> None:
    question = "What is 3 * 245, and how many free seats does crossing 4711 have?"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "examples/run_client_tools.py"), stack.base_url, question),
        env={**os.environ, "AES_API_KEY": stack.api_key},
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    async with asyncio.timeout(WITHIN):
        out, errors = await process.communicate(f"{said}\n".encode())
    assert process.returncode == 0, errors.decode()
    shown = out.decode()
    assert 'Allow calculator {"expression": "3 * 245"}?' in shown
    assert 'Ran free_seats {"crossing": 4711}' in shown
    assert outcome in shown
    assert '"free":118' in shown
