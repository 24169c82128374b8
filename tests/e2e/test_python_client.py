"""The Python client against the stack: its tutorial, and what it does when the service or the connection fails."""

import asyncio
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aes_client import AsyncClient, Client, RetryPolicy, tool

from tests.e2e.api import unique
from tests.e2e.held_model import HeldModel
from tests.e2e.running_stack import RunningStack

ROOT = Path(__file__).parents[2]
README = ROOT / "clients" / "python" / "README.md"
CONFIG: Any = {"name": "Client's", "agent_type": "react_agent", "llm_config": {"model": "openai:stub-slow-6000"}}


@pytest.fixture
def client(stack: RunningStack) -> Iterator[Client]:
    """A patient one: on a busy machine a killed service is away for longer than the half minute that others bear."""
    with Client(stack.base_url, stack.api_key, retries=RetryPolicy(retries=60)) as client:
        yield client


def test_the_tutorial_runs_as_it_stands(stack: RunningStack) -> None:
    script = "\n".join(re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL))
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "AES_BASE_URL": stack.base_url,
        "AES_API_KEY": stack.api_key,
        "PYTHONPATH": str(ROOT / "clients" / "python"),
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for promised in (
        "of Development",
        "2 * 84 = 168",
        "called calculator",
        "3 * 245 = 735",
        "calls calculator",
        "7 * 8 = 56",
        "118",
        "4 * 245 = 980",
        "completed 100 %",
        "turn.completed",
        "not_found_error",
        "must be 'llm_agent' or 'react_agent'",
        "12",
        "6 * 7 = 42",
    ):
        assert promised in done.stdout, f"{promised!r} is not in:\n{done.stdout}"


class LosesAnswers(httpx.HTTPTransport):
    """Loses the answer to the first request of that path, after the service has given it."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self.lost = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = super().handle_request(request)
        if self._path in request.url.path and request.method == "POST" and not self.lost:
            response.read()
            self.lost += 1
            raise httpx.ReadError("the answer was lost")
        return response


def test_a_request_whose_answer_was_lost_is_carried_out_once(
    stack: RunningStack, client: Client, model: HeldModel
) -> None:
    for path in ("/sessions/", "/execute/", "/files/"):
        transport = LosesAnswers(path)
        with Client(stack.base_url, stack.api_key, http=httpx.Client(transport=transport, timeout=60)) as careless:
            name = unique("lost")
            config = {**CONFIG, "llm_config": {"model": "openai:stub"}}
            session = careless.sessions.create(config=config)
            reply = session.execute(name)
            careless.files.upload(name.encode(), name=f"{name}.md")
        assert transport.lost == 1
        assert [each.turn_id for each in client.session(session.session_id).messages()] == [reply.turn_id] * 2
        assert len(model.asked(name)) == 1
        assert len(list(client.files.list(name=name))) == 1


async def test_both_clients_see_the_same_turn(stack: RunningStack, client: Client) -> None:
    session = client.sessions.create(
        config={**CONFIG, "llm_config": {"model": "openai:stub-tool"}, "tools": ["calculator"]}
    )
    turn = session.start("what is it?")
    async with AsyncClient(stack.base_url, stack.api_key) as asynchronous:
        handle = asynchronous.session(session.session_id).turn(turn.turn_id)
        seen = [event async for event in handle.stream()]
        reply = await handle.reply(timeout=60)
    assert [(event.id, event.type) for event in turn.stream() if not event.text] == [
        (event.id, event.type) for event in seen if not event.text
    ]
    assert seen[-1].reply().response == reply.response == turn.reply().response


@pytest.mark.failover("a client's stream, by another replica")
@pytest.mark.slow
def test_a_stream_goes_on_when_the_gateway_is_killed(breakable: RunningStack, client: Client) -> None:
    session = client.sessions.create(config=CONFIG)
    seen, pid = [], breakable.pid("gateway")
    for event in session.stream("tell me"):
        seen.append(event)
        if len(seen) == 4:
            breakable.kill("gateway")
    reply = seen[-1].reply()
    assert "".join(each.text for each in seen) == reply.response.content
    assert len({each.id for each in seen}) == len(seen)
    breakable.wait_replaced("gateway", pid)
    assert [each.turn_id for each in session.messages()] == [reply.turn_id] * 2


@pytest.mark.crash("runtime")
@pytest.mark.slow
def test_a_client_tool_answers_through_a_restart_of_the_runtime(breakable: RunningStack, client: Client) -> None:
    asked, killed = [], threading.Event()

    @tool
    def order_status(order: int) -> dict[str, str]:
        """The state of an order."""
        asked.append(order)
        breakable.kill("runtime")
        killed.set()
        return {"state": "paid"}

    config = {**CONFIG, "llm_config": {"model": "openai:stub-client"}}
    reply = client.sessions.create(config=config, tools=[order_status]).execute("Where is it?", timeout=240)
    assert killed.is_set()
    assert asked == [4711]
    [call] = reply.response.tool_calls
    assert (call.name, call.output) == ("order_status", '{"state":"paid"}')


async def test_turns_are_waited_for_together(stack: RunningStack) -> None:
    async with AsyncClient(stack.base_url, stack.api_key) as client:
        config = {**CONFIG, "llm_config": {"model": "openai:stub"}}
        sessions = await asyncio.gather(*(client.sessions.create(config=config) for _ in range(20)))
        turns = await asyncio.gather(*(session.start(unique()) for session in sessions))
        ended = await asyncio.gather(*(turn.wait(timeout=120) for turn in turns))
    assert {each.status for each in ended} == {"completed"}
