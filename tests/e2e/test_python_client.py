"""The Python client against the stack: its tutorial, and what it does when the service or the connection fails."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aes_client import Client, RetryPolicy

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
