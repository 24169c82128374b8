"""The gateway on fakes, behind a real socket: the SDK's client streams."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from libs.contracts.messages import Event
from libs.contracts.resources.sessions import CreateSession, SessionCreated
from libs.service_defaults._http_server import HttpServer
from services.gateway.entrypoints.door.routes import PREFIX
from tests.support.gateway import Gateway, Sent
from tests.support.waiting import until
from tests.unit.gateway.test_protocols import AGENT

Answers = Callable[[Sent], list[Event]]


@dataclass(frozen=True)
class Served:
    public: Gateway
    url: str

    @property
    def key(self) -> str:
        return str(self.public.client.headers["x-api-key"])

    def answers(self, path: str, answer: Any, *, upstream: str = "registry", method: str = "GET") -> None:
        self.public.upstreams.answers[method, upstream, path] = (200, answer)

    def turns(self, answers: Answers) -> None:
        """Sessions are opened at once; a turn gets these events."""

        def answer(sent: Sent) -> list[Event]:
            if isinstance(sent.command, CreateSession):
                return [SessionCreated(session_id=sent.command.session_id, config_hash="0")]
            return answers(sent)

        self.public.bus.upstream = answer

    async def until_sent(self, command: type) -> Sent:
        """The last command, once it is of this type."""
        sent = self.public.bus.sent
        await until(lambda: sent and isinstance(sent[-1].command, command), f"{command.__name__} was sent")
        return sent[-1]


@pytest.fixture
async def served(public: Gateway) -> AsyncIterator[Served]:
    """One agent, ``support``, is there."""
    mounts = {each.prefix: each for each in public.api.protocols}
    app = public.api.application
    server = HttpServer(app, {PREFIX: app, **mounts}, host="127.0.0.1", port=0, grace_seconds=1)  # type: ignore[arg-type,dict-item]
    serving = asyncio.create_task(server.serve_until_stopped())
    await until(lambda: server.started, "the server listens")
    port = server.servers[0].sockets[0].getsockname()[1]
    running = Served(public, f"http://127.0.0.1:{port}")
    running.answers("/internal/agents", [AGENT])
    running.answers("/internal/agents/by-key/support", AGENT)
    normalized = {"agent_config": {}, "config_hash": "0", "agent_id": AGENT["id"]}
    running.answers("/internal/agents/normalize", normalized, method="POST")
    yield running
    server.should_exit = True
    await serving
