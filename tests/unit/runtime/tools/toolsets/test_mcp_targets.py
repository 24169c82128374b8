"""MCP toolsets and targets that refuse, redirect, drip, lie or are no MCP servers."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from libs.contracts.resources.toolsets import ConnectedTool
from libs.outbound import GuardedResolver, is_public
from services.runtime.adapters.tools.toolsets.mcp.connector import McpConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable, connected_tools
from tests.support.agent_fakes import CALLER
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.waiting import pace, until

Answer = Callable[[web.BaseRequest, dict[str, Any]], Awaitable[web.StreamResponse]]
HEADERS = {"Authorization": "Bearer key", "Host": "elsewhere", "MCP-Session-Id": "mine"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOL = ConnectedTool(name="book", parameters={"type": "object"})


class Target:
    """A server that negotiates as MCP does, and answers calls as it is told."""

    def __init__(self, on_call: Answer) -> None:
        self.on_call = on_call
        self.methods: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self.version = "2025-06-18"
        self.session = "s1"

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
            found = {"protocolVersion": self.version, "capabilities": capabilities, "serverInfo": info}
            return result(message, found, headers={"mcp-session-id": self.session})
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
        [tool] = connected_tools(made, toolset(url))
        return (await tool.call({}, ToolContext("call", "turn", "session", CALLER))).text


async def names(made: McpConnector, url: str, **config: Any) -> list[str]:
    return [tool.name for tool in (await made.discover(toolset(url, **config))).tools]


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


@pytest.mark.parametrize(
    "found",
    [{}, {"content": None}, {"isError": True}, {"content": "text"}, {"content": [{"type": "text"}]}, {"content": [{}]}],
)
async def test_results_of_the_wrong_shape(found: dict[str, Any]) -> None:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, found)

    assert "violates the protocol" in str(await failure(answer))


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
    assert str(failed) == "the response is larger than 1048576 bytes"
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
                with pytest.raises(ToolFailed, match="isn't public"):
                    await call(made, url)
                with pytest.raises(ToolsetUnusable, match="isn't public") as refused:
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
            with pytest.raises(ToolFailed, match="isn't public"):
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
        [tool] = connected_tools(made, toolset(server.url, headers={"Authorization": "${secret:KEY}"}))
        with pytest.raises(ToolFailed, match=r"the secret 'KEY' in .* doesn't exist"):
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
        with pytest.raises(ToolsetUnusable, match="a page was listed twice"):
            await made.discover(toolset(server.url))
        assert len(asked) < 6
        endless = True
        with pytest.raises(ToolsetUnusable, match="more than 50 pages"):
            await made.discover(toolset(server.url))
        endless = False
        pages = {"tools": [tool("a", {"type": "object"}), tool("b", {"type": "object", "$ref": "http://127.0.0.1/"})]}
        with pytest.raises(ToolsetUnusable, match="tool b"):
            await made.discover(toolset(server.url, allowed_tools=["a", "b"]))
        assert await names(made, server.url, allowed_tools=["a"]) == ["a"]
        pages = {"tools": [tool(f"t{number}", {"type": "object"}) for number in range(501)]}
        with pytest.raises(ToolsetUnusable, match="more than 500 tools"):
            await made.discover(toolset(server.url))
        pages = {"tools": [{"name": 3}]}
        with pytest.raises(ToolsetUnusable, match="violate"):
            await made.discover(toolset(server.url))


USABLE = {"name": "a", "inputSchema": {"type": "object"}}


def listing(**page: Any) -> Answer:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, page)

    return answer


@pytest.mark.parametrize(
    ("tool", "name", "reason"),
    [
        ({"name": "b"}, "b", "inputSchema isn't an object"),
        ({"name": "b", "inputSchema": None}, "b", "inputSchema isn't an object"),
        ({"name": "b", "inputSchema": {}}, "b", "type 'object'"),
        ({"name": "b", "inputSchema": {"type": "array"}}, "b", "type 'object'"),
        ({"name": "b", "inputSchema": {"type": "object"}, "description": 3}, "b", "description"),
        ({"name": "b", "inputSchema": {"type": "object"}, "annotations": "none"}, "b", "annotations"),
        ({"name": "b", "inputSchema": {"type": "object", "properties": 3}}, "b", "inputSchema"),
        ({"name": "b", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1/"}}, "b", "schema"),
        ({"name": "b b", "inputSchema": {"type": "object"}}, "b b", "spaces"),
        ({"name": "", "inputSchema": {"type": "object"}}, "", "1 to 150"),
        ({"name": "a", "inputSchema": {"type": "object"}}, "a", "an earlier tool has the same name"),
        ({"name": 3, "inputSchema": {"type": "object"}}, "(number 2)", "doesn't have a name"),
        ({"inputSchema": {"type": "object"}}, "(number 2)", "doesn't have a name"),
        ("b", "(number 2)", "isn't an object"),
    ],
)
async def test_a_malformed_tool_is_left_out_and_named(tool: Any, name: str, reason: str) -> None:
    async with target(listing(tools=[USABLE, tool])) as server, connector() as made:
        found = await made.discover(toolset(server.url))

    assert [each.name for each in found.tools] == ["a"]
    assert [each.name for each in found.left_out] == [name]
    assert reason in found.left_out[0].reason


async def test_what_a_tool_says_beside_its_schema_and_hints_cannot_make_it_unusable() -> None:
    odd = {**USABLE, "outputSchema": {"type": "array"}, "icons": "none", "execution": 3, "_meta": []}
    async with target(listing(tools=[odd])) as server, connector() as made:
        assert await names(made, server.url) == ["a"]


async def test_a_malformed_tool_that_is_asked_for_refuses_the_toolset() -> None:
    async with target(listing(tools=[USABLE, {"name": "b", "inputSchema": {}}])) as server, connector() as made:
        with pytest.raises(ToolsetUnusable, match=r"tool b .* type 'object'"):
            await made.discover(toolset(server.url, allowed_tools=["a", "b"]))
        found = await made.discover(toolset(server.url, allowed_tools=["a"]))

    assert ([each.name for each in found.tools], found.left_out) == (["a"], [])


async def test_an_empty_cursor_ends_the_list() -> None:
    async with target(listing(tools=[USABLE], nextCursor="")) as server, connector() as made:
        assert await names(made, server.url) == ["a"]
        assert server.methods.count("tools/list") == 1


def in_json(message: dict[str, Any], found: dict[str, Any]) -> web.StreamResponse:
    return result(message, found)


def in_events(message: dict[str, Any], found: dict[str, Any]) -> web.StreamResponse:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found})
    text = f": hello\r\n\r\nevent: message\r\nid: 7\r\ndata: {body}\r\n\r\n"
    return web.Response(text=text, content_type="text/event-stream")


SHAPES = pytest.mark.parametrize("shape", [in_json, in_events])
Shape = Callable[[dict[str, Any], dict[str, Any]], web.StreamResponse]
RESOURCE = {"uri": "repo://ferries/README.md", "mimeType": "text/markdown", "text": "The ferry leaves at seven."}
LINK = {"type": "resource_link", "uri": "file:///fares.csv", "name": "fares", "description": "Fares of 2026"}


async def outcome(
    shape: Shape, found: dict[str, Any], artifacts: FakeArtifacts | None = None, version: str = "2025-06-18"
) -> ToolOutput | ToolFailed:
    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return shape(message, found)

    made = McpConnector(GuardedResolver(lambda _: True), ToolsetSecrets(None), artifacts)
    async with target(answer) as server:
        server.version = version
        [tool] = connected_tools(made, toolset(server.url))
        try:
            async with asyncio.timeout(60):
                return await tool.call({}, ToolContext("call", "turn", "session", CALLER))
        except ToolFailed as failed:
            return failed
        finally:
            await made.close()


@SHAPES
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_text_resources_and_links_reach_the_model(shape: Shape, version: str) -> None:
    text = {"type": "text", "text": "downloaded"}
    output = await outcome(shape, {"content": [text, {"type": "resource", "resource": RESOURCE}, LINK]}, None, version)

    assert isinstance(output, ToolOutput)
    assert output.text == (
        "downloaded\n[resource repo://ferries/README.md]\nThe ferry leaves at seven.\n"
        "[link to the resource 'fares' at file:///fares.csv] Fares of 2026"
    )


@SHAPES
@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"structuredContent": {"free": 3}}, '{"free":3}'),
        ({"content": None, "structuredContent": {"free": 3}}, '{"free":3}'),
        ({"content": [], "structuredContent": [1, 2], "isError": None}, '{"result":[1,2]}'),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "video", "url": "x"}]},
            "a\n[omitted: unreadable content of type video]",
        ),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "resource"}]},
            "a\n[omitted: unreadable content of type resource]",
        ),
    ],
)
async def test_results_with_a_missing_or_malformed_part(shape: Shape, found: dict[str, Any], text: str) -> None:
    output = await outcome(shape, found)

    assert isinstance(output, ToolOutput), output
    assert output.text == text


@SHAPES
@pytest.mark.parametrize(
    ("found", "text"),
    [
        ({"content": [], "structuredContent": {"code": "full"}}, '{"code":"full"}'),
        ({"structuredContent": {"code": "full"}}, '{"code":"full"}'),
        ({"content": [{"type": "text", "text": "no"}], "structuredContent": {"code": "full"}}, 'no\n{"code":"full"}'),
        ({"content": [{"type": "resource", "resource": RESOURCE}]}, "The ferry leaves at seven."),
        ({"content": [LINK]}, "file:///fares.csv"),
    ],
)
async def test_a_failure_keeps_all_that_it_says(shape: Shape, found: dict[str, Any], text: str) -> None:
    failed = await outcome(shape, {**found, "isError": True})

    assert isinstance(failed, ToolFailed)
    assert text in str(failed)


GIF = b"GIF89a" + b"\0" * 20
JPEG = b"\xff\xd8\xff\xe0" + b"\0" * 20
WEBP = b"RIFF\x1a\0\0\0WEBPVP8 " + b"\0" * 14


@pytest.mark.parametrize(
    ("content", "said", "name"),
    [
        (PNG, "image/jpeg", "book-1.png"),
        (JPEG, "image/jpg", "book-1.jpg"),
        (GIF, "image/png; charset=binary", "book-1.gif"),
        (WEBP, "application/octet-stream", "book-1.webp"),
        (PNG, "", "book-1.png"),
    ],
)
async def test_an_image_is_what_its_first_bytes_say(content: bytes, said: str, name: str) -> None:
    artifacts = FakeArtifacts()
    data = base64.encodebytes(content).decode()
    output = await outcome(in_json, {"content": [{"type": "image", "data": data, "mimeType": said}]}, artifacts)

    assert isinstance(output, ToolOutput), output
    assert [ref.name for ref in output.artifacts] == [name]
    [kept] = artifacts.generated()
    assert kept.content == content


async def test_an_image_of_a_resource_is_kept_and_other_files_are_said_to_be_left_out() -> None:
    artifacts = FakeArtifacts()
    blobs = [("logo", "image/png", PNG), ("sheet", "application/pdf", b"%PDF-1.7"), ("odd", "image/png", b"nothing")]
    content = [
        {
            "type": "resource",
            "resource": {"uri": f"file:///{name}", "mimeType": kind, "blob": base64.b64encode(blob).decode()},
        }
        for name, kind, blob in blobs
    ]
    output = await outcome(in_json, {"content": content}, artifacts)

    assert isinstance(output, ToolOutput), output
    assert [ref.name for ref in output.artifacts] == ["book-1.png"]
    assert "[omitted: the resource at file:///sheet (application/pdf)]" in output.text
    assert "[omitted: an image (image/png) that isn't one of" in output.text


@SHAPES
@pytest.mark.parametrize(
    "found",
    [
        {"content": [{"type": "text", "text": "é" * 1_200_000}]},
        {"isError": False, "structuredContent": {"rows": ["é" * 1_200_000]}},
        {"content": [{"type": "text", "text": "éé"}, {"type": "image", "data": "A" * 1_200_000}]},
        {"content": [{"type": "resource", "resource": {**RESOURCE, "text": "é" * 1_200_000}}]},
        {"content": [{"text": "é" * 1_200_000, "type": "text"}], "isError": False},
        {"content": [{"resource": {"text": "é" * 1_200_000, "uri": "file:///a"}, "type": "resource"}]},
    ],
)
async def test_a_large_answer_is_cut(shape: Shape, found: dict[str, Any]) -> None:
    output = await outcome(shape, found, FakeArtifacts())

    assert isinstance(output, ToolOutput), output
    assert output.cut
    assert "éé" in output.text
    assert len(output.text) < 1_100_000
    assert not output.artifacts


@SHAPES
async def test_a_large_failure_is_a_failure(shape: Shape) -> None:
    content = [{"type": "text", "text": "x" * 1_200_000}]
    assert isinstance(await outcome(shape, {"isError": True, "content": content}), ToolFailed)


@SHAPES
async def test_a_list_of_tools_that_is_too_large_is_not_cut(shape: Shape) -> None:
    large = {**USABLE, "description": "x" * 1_200_000}

    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return shape(message, {"tools": [USABLE, large]})

    async with target(answer) as server, connector() as made:
        with pytest.raises(ToolsetUnusable, match="larger than 1048576 bytes"):
            await made.discover(toolset(server.url))


UNKNOWN_SESSION = {"code": -32000, "message": "Bad Request: No valid session ID provided"}
NOT_INITIALIZED = {"code": -32000, "message": "Bad Request: Server not initialized"}
WRONG_ARGUMENT = {"code": -32602, "message": "session_id is missing"}


@pytest.mark.parametrize(
    ("body", "safe", "costs"),
    [
        (json.dumps({"jsonrpc": "2.0", "id": None, "error": UNKNOWN_SESSION}), False, False),
        (json.dumps({"jsonrpc": "2.0", "id": None, "error": NOT_INITIALIZED}), False, False),
        ("Invalid session ID", False, False),
        ("", True, False),
        ("", False, True),
        (json.dumps({"jsonrpc": "2.0", "id": None, "error": WRONG_ARGUMENT}), True, True),
    ],
)
async def test_a_restarted_server_that_answers_400_costs_no_call_where_it_is_safe(
    body: str, safe: bool, costs: bool
) -> None:
    restarted = False

    async def answer(request: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        if restarted and request.headers["mcp-session-id"] == "s1":
            return web.Response(status=400, text=body, content_type="application/json" if body[:1] == "{" else None)
        return result(message, {"content": [{"type": "text", "text": "done"}]})

    async with target(answer) as server, connector() as made:
        described = replace(toolset(server.url), tools=(TOOL.model_copy(update={"safe_to_repeat": safe}),))
        context = ToolContext("call", "turn", "session", CALLER)
        [tool] = connected_tools(made, described)
        assert (await tool.call({}, context)).text == "done"
        restarted, server.session = True, "s2"
        if costs:
            with pytest.raises(ToolFailed):
                await tool.call({}, context)
            assert server.calls == 2
        assert (await tool.call({}, context)).text == "done"
        assert server.calls == 3


@pytest.mark.parametrize("streamed", [False, True])
async def test_half_pairs_are_joined_or_replaced(streamed: bool) -> None:
    async def answer(request: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        number = json.dumps(message["id"]).encode()
        content = rb'{"content": [{"type": "text", "text": "\ud83d\ude00 \ud83d"}]}'
        body = b'{"jsonrpc": "2.0", "id": ' + number + b', "result": ' + content + b"}"
        if not streamed:
            return web.Response(body=body, content_type="application/json")
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        cut = body.index(rb"\ude00") + 2
        for piece in (b"data: " + body[:cut], body[cut:], b"\n\n"):
            await response.write(piece)
            await asyncio.sleep(0)
        return response

    async with target(answer) as server, connector() as made:
        assert await call(made, server.url) == "😀 �"


async def test_integers_of_any_size_reach_the_server_and_come_back() -> None:
    number = 12345678901234567890123

    async def answer(_: web.BaseRequest, message: dict[str, Any]) -> web.StreamResponse:
        return result(message, {"content": [], "structuredContent": {"given": message["params"]["arguments"]["n"]}})

    async with target(answer) as server, connector() as made:
        [tool] = connected_tools(made, toolset(server.url))
        output = await tool.call({"n": number}, ToolContext("call", "turn", "session", CALLER))
    assert output.text == '{"given":12345678901234567890123}'
