"""MCP toolsets against servers of the official SDK in processes of their own, which are killed and hang."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from libs.contracts.resources.secrets import secret_context
from libs.contracts.resources.toolsets import ConnectedTool
from libs.outbound import GuardedResolver
from libs.secrets import SecretCipher
from services.runtime.adapters.tools.toolsets.mcp.connections import McpConnections
from services.runtime.adapters.tools.toolsets.mcp.connector import McpConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable, connected_tools
from tests.integration.runtime.toolsets.mcp_processes import McpServerProcess, mcp_server
from tests.support.agent_fakes import CALLER
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.waiting import WITHIN, until

CIPHER = SecretCipher([b"k" * 32])
CONFIG = {"headers": {"X-Key": "${secret:KEY}"}}
SECRETS = {"KEY": base64.b64encode(CIPHER.encrypt("opened", context=secret_context("company", "KEY"))).decode()}
MODES = ["modern", "sessions"]


@dataclass
class Office:
    """A connector, and a server that it calls."""

    server: McpServerProcess
    connector: McpConnector
    connections: McpConnections
    artifacts: FakeArtifacts
    tools: list[ConnectedTool]

    def toolset(self, **config: Any) -> Toolset:
        return Toolset(
            "company", "office", 1, "mcp", {**CONFIG, "url": self.server.url, **config}, tuple(self.tools), SECRETS
        )

    async def call(self, tool: str, within: float = WITHIN, **arguments: Any) -> ToolOutput:
        [found] = [
            each for each in connected_tools(self.connector, self.toolset()) if each.definition.name == f"office.{tool}"
        ]
        async with asyncio.timeout(within):
            return await found.call(arguments, ToolContext("call", "turn", "session", CALLER))


@asynccontextmanager
async def office(server: McpServerProcess, **limits: Any) -> AsyncIterator[Office]:
    connections, artifacts = McpConnections(**limits), FakeArtifacts()
    resolver = GuardedResolver(lambda _: True)
    connector = McpConnector(resolver, ToolsetSecrets(CIPHER), artifacts, connections)
    made = Office(server, connector, connections, artifacts, [])
    made.tools = (await connector.discover(made.toolset())).tools
    try:
        yield made
    finally:
        await connector.close()


@pytest.fixture(scope="module", params=MODES)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpServerProcess]:
    with mcp_server(tmp_path_factory.mktemp("mcp"), request.param) as made:
        yield made


@pytest.fixture
def server(running: McpServerProcess) -> McpServerProcess:
    """A server that tests share and leave alive."""
    running.journal.unlink(missing_ok=True)
    return running


@pytest.fixture(params=MODES)
def mortal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[McpServerProcess]:
    """A server to be killed."""
    with mcp_server(tmp_path, request.param) as made:
        yield made


async def test_tools_are_listed_with_schemas_and_hints(server: McpServerProcess) -> None:
    async with office(server) as made:
        found = {tool.name: tool for tool in made.tools}
        assert {name for name, tool in found.items() if tool.safe_to_repeat} == {"seats", "echo"}
        assert found["seats"].description == "Free seats of a show."
        assert found["seats"].parameters["properties"]["show"]["type"] == "string"

        chosen = (await made.connector.discover(made.toolset(allowed_tools=["book", "echo"]))).tools
        assert [tool.name for tool in chosen] == ["book", "echo"]
        with pytest.raises(ToolsetUnusable, match="doesn't have: nothing"):
            await made.connector.discover(made.toolset(allowed_tools=["book", "nothing"]))


async def test_calls_carry_their_key_and_the_headers_and_failures_of_the_tool_are_theirs(
    server: McpServerProcess,
) -> None:
    async with office(server) as made:
        with pytest.raises(ToolFailed, match="fail") as failed:
            await made.call("fail", text="no seats")
        assert not failed.value.retry
        assert json.loads((await made.call("seats", show="abc")).text) == {"free": 3}
        assert (await made.call("book", show="x")).text == "booked x"
        assert (await made.call("header", name="X-Key")).text == "opened"
        calls = [(call["tool"], call["key"]) for call in made.server.calls]
        assert calls == [("seats", "turn.call"), ("book", "turn.call")]
        assert len(made.connections) == 1


async def test_images_become_artifacts_and_what_is_neither_that_nor_text_is_said_to_be_left_out(
    server: McpServerProcess,
) -> None:
    async with office(server) as made:
        output = await made.call("media")

        assert [ref.name for ref in output.artifacts] == ["media-2.png"]
        [image] = made.artifacts.generated()
        assert image.content.startswith(b"\x89PNG")
        assert image.key == "turn/call/1"
        for said in ("here", "omitted: an image (image/tiff)", "isn't valid Base64", "omitted: audio"):
            assert said in output.text
        assert "[resource file:///notes.txt]\nnotes of the day" in output.text


async def test_a_call_that_takes_too_long_costs_no_other_call(server: McpServerProcess) -> None:
    async with office(server) as made:
        other = asyncio.create_task(made.call("wait", seconds=3))
        await made.server.called(1)
        with pytest.raises(TimeoutError):
            await made.call("wait", 1, seconds=60)

        assert (await made.call("echo", text="a")).text == "a"
        assert (await other).text == "waited"


@pytest.mark.crash("a toolset's server")
async def test_a_server_that_dies_is_called_once_and_connected_to_anew(mortal: McpServerProcess) -> None:
    async with office(mortal) as made:
        waiting = asyncio.create_task(made.call("wait", seconds=60))
        await made.server.called(1)
        made.server.kill()
        with pytest.raises(ToolFailed, match="connection") as failed:
            await waiting
        assert failed.value.retry
        with pytest.raises(ToolFailed, match="couldn't connect") as failed:
            await made.call("book", show="x")
        assert failed.value.retry

        made.server.start()
        assert (await made.call("book", show="x")).text == "booked x"
        assert [call["tool"] for call in made.server.calls] == ["wait", "book"]


async def test_a_server_that_restarts_with_other_tools_or_versions(tmp_path: Path) -> None:
    with mcp_server(tmp_path) as server:
        async with office(server) as made:
            await made.call("book", show="1")
            server.kill()
            server.start("others")
            with pytest.raises(ToolFailed, match=r"book"):
                await made.call("book", show="2")
            assert [tool.name for tool in (await made.connector.discover(made.toolset())).tools] == ["other"]

            server.kill()
            server.start("sessions")
            with pytest.raises(ToolFailed):
                await made.call("book", show="3")
            assert (await made.call("book", show="4")).text == "booked 4"
            assert len(server.calls) == 2


async def test_connections_end_when_nobody_uses_them(server: McpServerProcess) -> None:
    async with office(server, idle_seconds=0.2) as made:
        await made.call("echo", text="a")
        await until(lambda: not len(made.connections), "the connection ends")
        assert (await made.call("echo", text="b")).text == "b"


async def test_the_number_of_connections_is_bounded(server: McpServerProcess) -> None:
    async with office(server, most=1) as made:
        waiting = asyncio.create_task(made.call("wait", seconds=600))
        await made.server.called(1)
        other = Toolset("other", "office", 1, "mcp", {"url": made.server.url}, tuple(made.tools), {})
        [echo] = [tool for tool in connected_tools(made.connector, other) if tool.definition.name == "office.echo"]
        context = ToolContext("call", "turn", "session", CALLER)

        with pytest.raises(ToolFailed, match="too many") as failed:
            await echo.call({"text": "a"}, context)
        assert failed.value.retry
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (await echo.call({"text": "a"}, context)).text == "a"
        assert len(made.connections) == 1
