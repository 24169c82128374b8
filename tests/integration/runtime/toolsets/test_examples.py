"""The toolsets of examples/toolsets, against the ticket offices that they describe."""

import asyncio
import base64
import os
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from deploy.local.ports import choose_free
from libs.contracts.resources.secrets import secret_context
from libs.contracts.resources.toolsets import ConnectedTool, CreateToolsetBody
from libs.outbound import GuardedResolver
from libs.secrets import SecretCipher
from services.runtime.adapters.models.extractive.tool_rules import named_calls
from services.runtime.adapters.tools.toolsets.http.connector import HttpConnector
from services.runtime.adapters.tools.toolsets.http_target import HttpTarget
from services.runtime.adapters.tools.toolsets.mcp.connector import McpConnector
from services.runtime.adapters.tools.toolsets.openapi.connector import OpenApiConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext, ToolFailed
from services.runtime.domain.toolsets import Toolset, ToolsetConnector, connected_tools
from tests.support.agent_fakes import CALLER
from tests.support.waiting import until

ROOT = Path(__file__).parents[4]
EXAMPLES = ROOT / "examples" / "toolsets"
PAGE = (ROOT / "docs" / "how-to" / "tools.md").read_text()
CIPHER = SecretCipher([b"k" * 32])
KEY = "berth-4711"
SECRET = base64.b64encode(CIPHER.encrypt(KEY, context=secret_context("company", "ticket-office"))).decode()


async def answers(process: asyncio.subprocess.Process, port: int) -> bool:
    assert process.returncode is None
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@asynccontextmanager
async def running(*command: str) -> AsyncIterator[int]:
    """A process that serves the port that it gets as its last argument."""
    port = choose_free()
    environment = {name: value for name, value in os.environ.items() if name != "TICKET_OFFICE_KEY"}
    process = await asyncio.create_subprocess_exec(sys.executable, *command, str(port), cwd=EXAMPLES, env=environment)
    try:
        await until(lambda: answers(process, port), "the example answers", pause=0.05)
        yield port
    finally:
        process.kill()
        await process.wait()


def toolset(kind: str, tools: list[ConnectedTool] | None = None, **ports: int) -> Toolset:
    """The toolset of the file as the registry hands it on; `ports` replace those of the example."""
    text = (EXAMPLES / f"{kind}-toolset.yaml").read_text()
    for name, port in ports.items():
        text = text.replace(name.removeprefix("of_"), str(port))
    body = CreateToolsetBody.model_validate(yaml.safe_load(text)).root
    config: dict[str, Any] = body.model_dump(exclude={"name", "type"}, exclude_unset=True)
    return Toolset("company", body.name, 1, body.type, config, tuple(tools or ()), {"ticket-office": SECRET})


async def book_and_cancel(connector: ToolsetConnector, found: Toolset) -> None:
    tools = {tool.definition.name: tool for tool in connected_tools(connector, found)}
    [message] = re.findall(r'{"content": "(.+?)"}', PAGE)
    calls = named_calls(message, [tool.definition for tool in tools.values()])
    assert calls == [("tickets.book_seats", {"crossing": "morning", "seats": 2, "name": "Kari"})]

    async def call(tool: str, call_id: str = "1", **arguments: Any) -> str:
        context = ToolContext(call_id, "turn", "session", CALLER)
        return (await tools[f"tickets.{tool}"].call(arguments, context)).text

    assert "evening" in await call("list_crossings")
    booked = await call("book_seats", "2", crossing="evening", seats=2, name="Ida")
    again = await call("book_seats", "2", crossing="evening", seats=2, name="Ida")
    assert "T0001" in booked
    assert again == booked
    try:
        refused = await call("book_seats", "3", crossing="evening", seats=2, name="Bo")
    except ToolFailed as problem:
        refused = str(problem)
    assert "Too few free seats on the evening crossing: 1." in refused


@pytest.fixture
async def target() -> AsyncIterator[HttpTarget]:
    made = HttpTarget(GuardedResolver(lambda _: True), ToolsetSecrets(CIPHER))
    yield made
    await made.close()


def test_the_example_key_is_no_word_of_the_examples() -> None:
    """A word of descriptions as the key would be shown as `[secret]` in them."""
    for example in EXAMPLES.glob("*toolset*.yaml"):
        assert KEY not in example.read_text()
    assert KEY in PAGE


async def test_the_http_toolset(target: HttpTarget) -> None:
    connector = HttpConnector(target)
    async with running("ticket_office.py") as port:
        found = (await connector.discover(toolset("http", of_8201=port))).tools
        tools = [(tool.name, tool.safe_to_repeat) for tool in found]
        assert tools == [("list_crossings", True), ("book_seats", True), ("cancel_booking", False)]
        await book_and_cancel(connector, toolset("http", found, of_8201=port))


async def test_the_openapi_toolset(target: HttpTarget) -> None:
    connector = OpenApiConnector(target, GuardedResolver(lambda _: True))
    async with running("ticket_office.py") as port, running("-m", "http.server", "--bind", "127.0.0.1") as files:
        described = toolset("openapi", of_8203=files)
        described.config["base_url"] = f"http://127.0.0.1:{port}"
        found = (await connector.discover(described)).tools
        assert [tool.name for tool in found] == ["list_crossings", "book_seats", "cancel_booking"]
        await book_and_cancel(connector, replace(described, tools=tuple(found)))


async def test_the_mcp_toolset() -> None:
    resolver = GuardedResolver(lambda _: True)
    connector = McpConnector(resolver, ToolsetSecrets(CIPHER))
    async with running("ticket_office_mcp.py") as port:
        found = (await connector.discover(toolset("mcp", of_8202=port))).tools
        assert [(tool.name, tool.safe_to_repeat) for tool in found] == [("list_crossings", True), ("book_seats", True)]
        await book_and_cancel(connector, toolset("mcp", found, of_8202=port))
    await connector.close()
