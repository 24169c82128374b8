"""MCP toolsets and targets that refuse, redirect, drip, lie or are no MCP servers."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from libs.contracts.api.toolsets import ConnectedTool
from libs.outbound import GuardedResolver, is_public
from services.runtime.adapters.tools.toolsets.mcp.connector import McpConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext, ToolFailed
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable
from tests.support.agent_fakes import CALLER
from tests.support.waiting import pace, until

Answer = Callable[[web.BaseRequest, dict[str, Any]], Awaitable[web.StreamResponse]]
HEADERS = {"Authorization": "Bearer key", "Host": "elsewhere", "MCP-Session-Id": "mine"}
TOOL = ConnectedTool(name="book", parameters={"type": "object"})


class Target:
    """A server that negotiates as MCP does, and answers calls as it is told."""

    def __init__(self, on_call: Answer) -> None:
        self.on_call = on_call
        self.methods: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    @property
    def calls(self) -> int:
        return self.methods.count("tools/call")

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        message = json.loads(await request.read()) if request.method == "POST" else {}
        method = message.get("method", request.method)
        self.methods.append(method)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        if method == "initialize":
            info = {"name": "target", "version": "1"}
            capabilities: dict[str, Any] = {"tools": {}}
            found = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
            return result(message, found, headers={"mcp-session-id": "s1"})
        if method in ("tools/call", "tools/list"):
            return await self.on_call(request, message)
        return web.Response(status=202 if method.startswith("notifications/") else 400)


def result(message: dict[str, Any], found: dict[str, Any], **more: Any) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": found}, **more)


@asynccontextmanager
async def target(on_call: Answer) -> AsyncIterator[Target]:
    made = Target(on_call)
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await runner.cleanup()


@asynccontextmanager
async def connector(resolver: GuardedResolver | None = None) -> AsyncIterator[McpConnector]:
    made = McpConnector(resolver or GuardedResolver(lambda _: True), ToolsetSecrets(None))
    try:
        yield made
    finally:
        await made.close()


def toolset(url: str, **config: Any) -> Toolset:
    return Toolset("company", "office", 1, "mcp", {"url": url, "headers": HEADERS, **config}, (TOOL,), {})


async def call(made: McpConnector, url: str) -> str:
    async with asyncio.timeout(60):
        [tool] = made.tools(toolset(url))
        return (await tool.call({}, ToolContext("call", "turn", "session", CALLER))).text


async def failure(on_call: Answer) -> ToolFailed:
    async with target(on_call) as server, connector() as made:
        with pytest.raises(ToolFailed) as failed:
            await call(made, server.url)
        assert server.calls == 1
        return failed.value


@pytest.mark.parametrize(
    ("status", "retry"), [(500, True), (503, True), (429, True), (401, False), (400, False), (404, False)]
)
async def test_statuses(status: int, retry: bool) -> None:
    async def answer(_: web.BaseRequest, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(status=status, text="<html>")

    assert (await failure(answer)).retry is retry


async def test_an_error_of_the_protocol_is_told() -> None:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        error = {"code": -32602, "message": "there is no such show"}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})

    failed = await failure(answer)
    assert (str(failed), failed.retry) == ("there is no such show", False)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"{", "application/json"),
        (b"null", "application/json"),
        (b'{"jsonrpc": "2.0", "id": 1}', "application/json"),
        (b"hello", "text/plain"),
        (b"", "application/json"),
        (b"data: {\n\n", "text/event-stream"),
        (b"", "text/event-stream"),
    ],
)
async def test_answers_that_are_no_mcp(body: bytes, kind: str) -> None:
    async def answer(_: web.BaseRequest, __: dict[str, Any]) -> web.StreamResponse:
        return web.Response(body=body, content_type=kind)

    assert str(await failure(answer))


@pytest.mark.parametrize("found", [{}, {"content": "text"}, {"content": [{"type": "text"}]}, {"content": [{}]}])
async def test_results_of_the_wrong_shape(found: dict[str, Any]) -> None:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, found)

    assert "not what the protocol asks for" in str(await failure(answer))


async def test_a_connection_that_breaks_in_the_middle_of_the_answer() -> None:
    async def answer(request: web.BaseRequest, _: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b'{"jsonrpc"')
        assert request.transport is not None
        request.transport.abort()
        return response

    assert (await failure(answer)).retry


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_ten_megabytes_are_not_read(kind: str) -> None:
    async def answer(request: web.BaseRequest, _: dict[str, Any]) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        for _ in range(160):
            await response.write(b": " + b"x" * 65_533 + b"\n")
        return response

    failed = await failure(answer)
    assert str(failed) == "the answer is larger than 1048576 bytes"
    assert not failed.retry


async def test_a_compressed_answer_is_refused() -> None:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        response = result(message, {"content": []})
        response.enable_compression(web.ContentCoding.gzip, strategy=0)
        response.headers["Content-Encoding"] = "gzip"
        return response

    assert "compressed" in str(await failure(answer))


async def test_an_answer_that_never_ends_is_given_up_and_the_next_call_connects_anew() -> None:
    slow, drips = True, 0

    async def answer(request: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        nonlocal drips
        if not slow:
            return result(message, {"content": [{"type": "text", "text": "at last"}]})
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b": drip\n")
            drips += 1
            await pace(0.05)

    async with target(answer) as server, connector() as made:
        waiting = asyncio.create_task(call(made, server.url))
        await until(lambda: drips >= 3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        slow = False
        assert await call(made, server.url) == "at last"
        assert server.methods.count("initialize") == 2


async def test_a_redirect_elsewhere_is_not_followed_and_gets_no_header() -> None:
    async def hidden(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, {"content": [{"type": "text", "text": "inside"}]})

    async with target(hidden) as inside, connector() as made:

        async def answer(_: web.BaseRequest, __: dict[str, Any]) -> web.StreamResponse:
            return web.Response(status=307, headers={"Location": inside.url})

        async with target(answer) as server:
            with pytest.raises(ToolFailed, match="not followed"):
                await call(made, server.url)
            assert server.headers[-1]["authorization"] == "Bearer key"
        assert inside.methods == []


async def test_addresses_that_are_not_allowed_are_refused_also_when_a_name_is_bound_to_another() -> None:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, {"content": []})

    addresses = iter([["127.0.0.1"], *[["10.0.0.1"]] * 10])
    first = ["127.0.0.1"]

    async def rebinding(_: str, __: int) -> list[str]:
        return next(addresses)

    async with target(answer) as server:
        guarded = GuardedResolver(is_public)
        async with connector(guarded) as made:
            for url in (server.url, server.url.replace("127.0.0.1", "localhost"), "http://169.254.169.254/mcp"):
                with pytest.raises(ToolFailed, match="not public"):
                    await call(made, url)
                with pytest.raises(ToolsetUnusable, match="not public") as refused:
                    await made.discover(toolset(url))
                [detail] = refused.value.details or ()
                assert detail.loc == ["url"]
                assert "AES_OUTBOUND_NETWORKS" in (detail.hint or "")
        assert server.methods == []

        # The first look-up is allowed; what the name leads to afterwards is not.
        resolver = GuardedResolver(lambda address: address in first, rebinding)
        async with connector(resolver) as made:
            assert await call(made, f"http://target.example:{server.port}/mcp") == "(no content)"
            server.on_call = _closing
            for _ in range(2):
                with pytest.raises(ToolFailed):
                    await call(made, f"http://target.example:{server.port}/mcp")
            with pytest.raises(ToolFailed, match="not public"):
                await call(made, f"http://target.example:{server.port}/mcp")


async def _closing(request: web.BaseRequest, _: dict[str, Any]) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def test_a_session_that_ended_is_made_anew_and_the_call_made_once() -> None:
    ended = False

    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        nonlocal ended
        if ended:
            ended = False
            return web.Response(status=404)
        return result(message, {"content": [{"type": "text", "text": "done"}]})

    async with target(answer) as server, connector() as made:
        assert await call(made, server.url) == "done"
        assert server.headers[-1]["host"] != "elsewhere"
        assert server.headers[-1]["mcp-session-id"] == "s1"
        ended = True
        assert await call(made, server.url) == "done"
        assert server.methods.count("initialize") == 2
        assert server.calls == 3


async def test_a_missing_secret_fails_the_call_with_its_name() -> None:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, {"content": []})

    async with target(answer) as server, connector() as made:
        [tool] = made.tools(toolset(server.url, headers={"Authorization": "${secret:KEY}"}))
        with pytest.raises(ToolFailed, match="no secret 'KEY'"):
            await tool.call({}, ToolContext("call", "turn", "session", CALLER))
        assert server.methods == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://nowhere.invalid/mcp", "http://u:p@a.example/mcp"])
async def test_servers_that_cannot_be_reached(url: str) -> None:
    async with connector() as made:
        with pytest.raises(ToolFailed):
            await call(made, url)
        with pytest.raises(ToolsetUnusable):
            await made.discover(toolset(url))


async def test_lists_of_tools_have_an_end_and_usable_schemas() -> None:
    def tool(name: str, schema: Any) -> dict[str, Any]:
        return {"name": name, "inputSchema": schema}

    pages: dict[str, Any] = {"tools": [tool("a", {"type": "object"})], "nextCursor": "again"}

    asked: list[Any] = []

    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        asked.append(message.get("params"))
        return result(message, {**pages, **({"nextCursor": f"after {len(asked)}"} if endless else {})})

    endless = False
    async with target(answer) as server, connector() as made:
        with pytest.raises(ToolsetUnusable, match="a page was named twice"):
            await made.discover(toolset(server.url))
        assert len(asked) < 6
        endless = True
        with pytest.raises(ToolsetUnusable, match="more than 50 pages"):
            await made.discover(toolset(server.url))
        endless = False
        pages = {"tools": [tool("a", {"type": "object"}), tool("b", {"type": "object", "$ref": "http://127.0.0.1/"})]}
        with pytest.raises(ToolsetUnusable, match="tool b"):
            await made.discover(toolset(server.url))
        assert [found.name for found in await made.discover(toolset(server.url, allowed_tools=["a"]))] == ["a"]
        pages = {"tools": [tool(f"t{number}", {"type": "object"}) for number in range(501)]}
        with pytest.raises(ToolsetUnusable, match="more than 500 tools"):
            await made.discover(toolset(server.url))
        pages = {"tools": [{"name": 3}]}
        with pytest.raises(ToolsetUnusable, match="not what the protocol asks for"):
            await made.discover(toolset(server.url))
