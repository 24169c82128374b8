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

from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools
from libs.outbound import GuardedResolver, is_public
from services.runtime.adapters.tools.toolsets.mcp.connector import McpConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable, connected_tools
from tests.support.agent_fakes import CALLER
from tests.support.artifact_fakes import FakeArtifacts
from tests.support.waiting import pace, until

Message = dict[str, Any]
Answer = Callable[[web.BaseRequest, Message], Awaitable[web.StreamResponse]]
Shape = Callable[[Message, Message], web.StreamResponse]
HEADERS = {"Authorization": "Bearer key", "Host": "elsewhere", "MCP-Session-Id": "mine"}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
TOOL = ConnectedTool(name="book", parameters={"type": "object"})
USABLE = {"name": "a", "inputSchema": {"type": "object"}}
RESOURCE = {"uri": "repo://ferries/README.md", "mimeType": "text/markdown", "text": "The ferry leaves at seven."}
LINK = {"type": "resource_link", "uri": "file:///fares.csv", "name": "fares", "description": "Fares of 2026"}


class Target:
    """A server that negotiates as MCP does and answers calls as it is told, with a connector that calls it."""

    def __init__(self, on_call: Answer, resolver: GuardedResolver, artifacts: FakeArtifacts | None) -> None:
        self.on_call = on_call
        self.connector = McpConnector(resolver, ToolsetSecrets(None), artifacts)
        self.methods: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.port = 0
        self.version, self.session = "2025-06-18", "s1"

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
            found = {"protocolVersion": self.version, "capabilities": {"tools": {}}, "serverInfo": info}
            return in_json(message, found, headers={"mcp-session-id": self.session})
        if method in ("tools/call", "tools/list"):
            return await self.on_call(request, message)
        return web.Response(status=202 if method.startswith("notifications/") else 400)

    def toolset(self, **config: Any) -> Toolset:
        return Toolset("company", "office", 1, "mcp", {"url": self.url, "headers": HEADERS, **config}, (TOOL,), {})

    async def call(self, arguments: Message | None = None, *, safe: bool = False, **config: Any) -> ToolOutput:
        described = replace(self.toolset(**config), tools=(TOOL.model_copy(update={"safe_to_repeat": safe}),))
        [tool] = connected_tools(self.connector, described)
        async with asyncio.timeout(60):
            return await tool.call(arguments or {}, ToolContext("call", "turn", "session", CALLER))

    async def failure(self, match: str = ".", **how: Any) -> ToolFailed:
        with pytest.raises(ToolFailed, match=match) as failed:
            await self.call(**how)
        return failed.value

    async def discovered(self, **config: Any) -> DiscoveredTools:
        return await self.connector.discover(self.toolset(**config))

    async def names(self, **config: Any) -> list[str]:
        return [tool.name for tool in (await self.discovered(**config)).tools]

    async def unusable(self, match: str, **config: Any) -> ToolsetUnusable:
        with pytest.raises(ToolsetUnusable, match=match) as refused:
            await self.discovered(**config)
        return refused.value


@asynccontextmanager
async def target(
    on_call: Answer, resolver: GuardedResolver | None = None, artifacts: FakeArtifacts | None = None
) -> AsyncIterator[Target]:
    made = Target(on_call, resolver or GuardedResolver(lambda _: True), artifacts)
    runner = web.ServerRunner(web.Server(made.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    made.port = runner.addresses[0][1]
    try:
        yield made
    finally:
        await made.connector.close()
        await runner.cleanup()


def in_json(message: Message, found: Message, **more: Any) -> web.Response:
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": found}, **more)


def in_events(message: Message, found: Message) -> web.StreamResponse:
    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": found})
    text = f": hello\r\n\r\nevent: message\r\nid: 7\r\ndata: {body}\r\n\r\n"
    return web.Response(text=text, content_type="text/event-stream")


def returning(found: Message, shape: Shape = in_json) -> Answer:
    async def answer(_: web.BaseRequest, message: Message) -> web.StreamResponse:
        return shape(message, found)

    return answer


def responding(**response: Any) -> Answer:
    async def answer(_: web.BaseRequest, __: Message) -> web.StreamResponse:
        return web.Response(**response)

    return answer


def saying(text: str) -> Message:
    return {"content": [{"type": "text", "text": text}]}


def flooding(kind: str) -> Answer:
    async def answer(request: web.BaseRequest, _: Message) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": kind})
        await response.prepare(request)
        for _ in range(160):
            await response.write(b": " + b"x" * 65_533 + b"\n")
        return response

    return answer


async def closing(request: web.BaseRequest, _: Message) -> web.StreamResponse:
    request.transport.abort()
    return web.Response()


async def breaking_off(request: web.BaseRequest, message: Message) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b'{"jsonrpc"')
    return await closing(request, message)


async def compressed(_: web.BaseRequest, message: Message) -> web.StreamResponse:
    response = in_json(message, {"content": []})
    response.enable_compression(web.ContentCoding.gzip, strategy=0)
    response.headers["Content-Encoding"] = "gzip"
    return response


async def erring(_: web.BaseRequest, message: Message) -> web.StreamResponse:
    error = {"code": -32602, "message": "there is no such show"}
    return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error})


NO_MCP = [
    (b"{", "application/json"),
    (b"null", "application/json"),
    (b'{"jsonrpc": "2.0", "id": 1}', "application/json"),
    (b"hello", "text/plain"),
    (b"", "application/json"),
    (b"data: {\n\n", "text/event-stream"),
    (b"", "text/event-stream"),
]
WRONG_SHAPES: list[Message] = [
    {}, {"content": None}, {"isError": True}, {"content": "text"}, {"content": [{"type": "text"}]}, {"content": [{}]},
]  # fmt: skip
FAILURES: dict[str, tuple[Answer, str, bool | None]] = {
    **{f"status {each}": (responding(status=each, text="<html>"), ".", True) for each in (500, 503, 429)},
    **{f"status {each}": (responding(status=each, text="<html>"), ".", False) for each in (401, 400, 404)},
    **{f"{kind} {body!r}": (responding(body=body, content_type=kind), ".", None) for body, kind in NO_MCP},
    **{str(found): (returning(found), "violates the protocol", None) for found in WRONG_SHAPES},
    **{f"flood of {kind}": (flooding(kind), "^the response is larger than 1048576 bytes$", False)
       for kind in ("application/json", "text/event-stream")},
    "error of the protocol": (erring, "^there is no such show$", False),
    "broken connection": (breaking_off, ".", True),
    "compressed": (compressed, "compressed", None),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILURES)
async def test_a_call_that_fails_is_made_once_and_its_failure_told(name: str) -> None:
    answer, told, retry = FAILURES[name]
    async with target(answer) as server:
        failed = await server.failure(told)
    assert retry in (None, failed.retry)
    assert server.calls == 1


async def test_an_answer_that_never_ends_is_given_up_and_the_next_call_connects_anew() -> None:
    drips = 0

    async def dripping(request: web.BaseRequest, _: Message) -> web.StreamResponse:
        nonlocal drips
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        while True:
            await response.write(b": drip\n")
            drips += 1
            await pace(0.05)

    async with target(dripping) as server:
        waiting = asyncio.create_task(server.call())
        await until(lambda: drips >= 3)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        server.on_call = returning(saying("at last"))
        assert (await server.call()).text == "at last"
        assert server.methods.count("initialize") == 2


async def test_a_redirect_elsewhere_is_not_followed_and_gets_no_header() -> None:
    async with (
        target(returning(saying("inside"))) as inside,
        target(responding(status=307, headers={"Location": inside.url})) as server,
    ):
        await server.failure("not followed")
        assert server.headers[-1]["authorization"] == "Bearer key"
        assert inside.methods == []


async def test_addresses_that_are_not_allowed_are_refused() -> None:
    async with target(returning({"content": []}), GuardedResolver(is_public)) as server:
        for url in (server.url, server.url.replace("127.0.0.1", "localhost"), "http://169.254.169.254/mcp"):
            await server.failure("isn't public", url=url)
            [detail] = (await server.unusable("isn't public", url=url)).details or ()
            assert detail.loc == ["url"]
            assert "AES_OUTBOUND_NETWORKS" in (detail.hint or "")
        assert server.methods == []


async def test_a_name_that_is_bound_to_another_address_after_the_first_look_up_is_refused() -> None:
    addresses = iter([["127.0.0.1"], *[["10.0.0.1"]] * 10])

    async def rebinding(_: str, __: int) -> list[str]:
        return next(addresses)

    resolver = GuardedResolver(lambda address: address == "127.0.0.1", rebinding)
    async with target(returning({"content": []}), resolver) as server:
        url = f"http://target.example:{server.port}/mcp"
        assert (await server.call(url=url)).text == "(no content)"
        server.on_call = closing
        for _ in range(2):
            await server.failure(url=url)
        await server.failure("isn't public", url=url)


async def test_a_session_that_ended_is_made_anew_and_the_call_made_once() -> None:
    done = returning(saying("done"))
    async with target(done) as server:
        assert (await server.call()).text == "done"
        assert server.headers[-1]["host"] != "elsewhere"
        assert server.headers[-1]["mcp-session-id"] == "s1"

        async def ended(_: web.BaseRequest, __: Message) -> web.StreamResponse:
            server.on_call = done
            return web.Response(status=404)

        server.on_call = ended
        assert (await server.call()).text == "done"
        assert (server.methods.count("initialize"), server.calls) == (2, 3)


async def test_a_missing_secret_fails_the_call_with_its_name() -> None:
    async with target(returning({"content": []})) as server:
        await server.failure("the secret 'KEY' in .* doesn't exist", headers={"Authorization": "${secret:KEY}"})
        assert server.methods == []


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "http://nowhere.invalid/mcp", "http://u:p@a.example/mcp"])
async def test_servers_that_cannot_be_reached(url: str) -> None:
    async with target(closing) as server:
        await server.failure(url=url)
        await server.unusable(".", url=url)


async def test_lists_of_tools_have_an_end_and_usable_schemas() -> None:
    asked = 0

    async def without_end(_: web.BaseRequest, message: Message) -> web.StreamResponse:
        nonlocal asked
        asked += 1
        return in_json(message, {"tools": [USABLE], "nextCursor": f"after {asked}"})

    async with target(returning({"tools": [USABLE], "nextCursor": "again"})) as server:
        await server.unusable("returned the same page twice")
        assert server.methods.count("tools/list") < 6
        server.on_call = without_end
        await server.unusable("more than 50 pages")
        elsewhere = {"name": "b", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1/"}}
        server.on_call = returning({"tools": [USABLE, elsewhere]})
        await server.unusable("tool b", allowed_tools=["a", "b"])
        assert await server.names(allowed_tools=["a"]) == ["a"]
        server.on_call = returning({"tools": [{**USABLE, "name": f"t{number}"} for number in range(501)]})
        await server.unusable("more than 500 tools")
        server.on_call = returning({"tools": [{"name": 3}]})
        await server.unusable("None of the MCP server's tools can be used")


@pytest.mark.parametrize(
    ("tool", "name", "reason"),
    [
        ({"name": "b"}, "b", "inputSchema isn't an object"),
        ({"name": "b", "inputSchema": None}, "b", "inputSchema isn't an object"),
        ({"name": "b", "inputSchema": {}}, "b", "type 'object'"),
        ({"name": "b", "inputSchema": {"type": "array"}}, "b", "type 'object'"),
        ({**USABLE, "name": "b", "description": 3}, "b", "description"),
        ({**USABLE, "name": "b", "annotations": "none"}, "b", "annotations"),
        ({"name": "b", "inputSchema": {"type": "object", "properties": 3}}, "b", "inputSchema"),
        ({"name": "b", "inputSchema": {"type": "object", "$ref": "http://127.0.0.1/"}}, "b", "schema"),
        ({**USABLE, "name": "b b"}, "b b", "spaces"),
        ({**USABLE, "name": ""}, "", "1 to 150"),
        (USABLE, "a", "an earlier tool has the same name"),
        ({**USABLE, "name": 3}, "(number 2)", "doesn't have a name"),
        ({"inputSchema": {"type": "object"}}, "(number 2)", "doesn't have a name"),
        ("b", "(number 2)", "isn't an object"),
    ],
)
async def test_a_malformed_tool_is_left_out_and_named(tool: Any, name: str, reason: str) -> None:
    async with target(returning({"tools": [USABLE, tool]})) as server:
        found = await server.discovered()

    assert [each.name for each in found.tools] == ["a"]
    assert [each.name for each in found.left_out] == [name]
    assert reason in found.left_out[0].reason


async def test_a_malformed_tool_that_is_asked_for_refuses_the_toolset() -> None:
    async with target(returning({"tools": [USABLE, {"name": "b", "inputSchema": {}}]})) as server:
        await server.unusable(r"tool b .* type 'object'", allowed_tools=["a", "b"])
        found = await server.discovered(allowed_tools=["a"])

    assert ([each.name for each in found.tools], found.left_out) == (["a"], [])


async def test_what_else_a_tool_says_cannot_make_it_unusable_and_an_empty_cursor_ends_the_list() -> None:
    odd = {**USABLE, "outputSchema": {"type": "array"}, "icons": "none", "execution": 3, "_meta": []}
    async with target(returning({"tools": [odd], "nextCursor": ""})) as server:
        assert await server.names() == ["a"]
        assert server.methods.count("tools/list") == 1


SHAPES = pytest.mark.parametrize("shape", [in_json, in_events])


async def outcome(
    shape: Shape, found: Message, artifacts: FakeArtifacts | None = None, version: str = "2025-06-18"
) -> ToolOutput:
    async with target(returning(found, shape), artifacts=artifacts) as server:
        server.version = version
        return await server.call()


@SHAPES
@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25"])
async def test_text_resources_and_links_reach_the_model(shape: Shape, version: str) -> None:
    text = {"type": "text", "text": "downloaded"}
    found = {"content": [text, {"type": "resource", "resource": RESOURCE}, LINK]}
    assert (await outcome(shape, found, version=version)).text == (
        "downloaded\n[resource repo://ferries/README.md]\nThe ferry leaves at seven.\n"
        "[link to the resource 'fares' at file:///fares.csv] Fares of 2026"
    )


@SHAPES
async def test_results_with_a_missing_or_malformed_part(shape: Shape) -> None:
    text = {"type": "text", "text": "a"}
    for found, said in (
        ({"structuredContent": {"free": 3}}, '{"free":3}'),
        ({"content": None, "structuredContent": {"free": 3}}, '{"free":3}'),
        ({"content": [], "structuredContent": [1, 2], "isError": None}, '{"result":[1,2]}'),
        ({"content": [text, {"type": "video", "url": "x"}]}, "a\n[omitted: unreadable content of type video]"),
        ({"content": [text, {"type": "resource"}]}, "a\n[omitted: unreadable content of type resource]"),
    ):
        assert (await outcome(shape, found)).text == said


@SHAPES
async def test_a_failure_keeps_all_that_it_says(shape: Shape) -> None:
    for found, said in (
        ({"content": [], "structuredContent": {"code": "full"}}, '{"code":"full"}'),
        ({"structuredContent": {"code": "full"}}, '{"code":"full"}'),
        ({**saying("no"), "structuredContent": {"code": "full"}}, 'no\n{"code":"full"}'),
        ({"content": [{"type": "resource", "resource": RESOURCE}]}, "The ferry leaves at seven."),
        ({"content": [LINK]}, "file:///fares.csv"),
        (saying("x" * 1_200_000), "x"),
    ):
        async with target(returning({"isError": True, **found}, shape)) as server:
            assert said in str(await server.failure())


@pytest.mark.parametrize(
    ("content", "said", "name"),
    [
        (PNG, "image/jpeg", "book-1.png"),
        (b"\xff\xd8\xff\xe0" + b"\0" * 20, "image/jpg", "book-1.jpg"),
        (b"GIF89a" + b"\0" * 20, "image/png; charset=binary", "book-1.gif"),
        (b"RIFF\x1a\0\0\0WEBPVP8 " + b"\0" * 14, "application/octet-stream", "book-1.webp"),
        (PNG, "", "book-1.png"),
    ],
)
async def test_an_image_is_what_its_first_bytes_say(content: bytes, said: str, name: str) -> None:
    artifacts = FakeArtifacts()
    data = base64.encodebytes(content).decode()
    output = await outcome(in_json, {"content": [{"type": "image", "data": data, "mimeType": said}]}, artifacts)

    assert [ref.name for ref in output.artifacts] == [name]
    assert [kept.content for kept in artifacts.generated()] == [content]


async def test_an_image_of_a_resource_is_kept_and_other_files_are_said_to_be_left_out() -> None:
    blobs = [("logo", "image/png", PNG), ("sheet", "application/pdf", b"%PDF-1.7"), ("odd", "image/png", b"nothing")]
    resources = [
        {"uri": f"file:///{name}", "mimeType": kind, "blob": base64.b64encode(blob).decode()}
        for name, kind, blob in blobs
    ]
    content = [{"type": "resource", "resource": resource} for resource in resources]
    output = await outcome(in_json, {"content": content}, FakeArtifacts())

    assert [ref.name for ref in output.artifacts] == ["book-1.png"]
    assert "[omitted: the resource at file:///sheet (application/pdf)]" in output.text
    assert "[omitted: an image (image/png) that isn't one of" in output.text


LONG = "é" * 1_200_000


@SHAPES
@pytest.mark.parametrize(
    "found",
    [
        saying(LONG),
        {"isError": False, "structuredContent": {"rows": [LONG]}},
        {"content": [{"type": "text", "text": "éé"}, {"type": "image", "data": "A" * 1_200_000}]},
        {"content": [{"type": "resource", "resource": {**RESOURCE, "text": LONG}}]},
        {"content": [{"text": LONG, "type": "text"}], "isError": False},
        {"content": [{"resource": {"text": LONG, "uri": "file:///a"}, "type": "resource"}]},
    ],
    ids=["text", "structured", "image", "resource", "text before its type", "resource before its type"],
)
async def test_a_large_answer_is_cut(shape: Shape, found: Message) -> None:
    output = await outcome(shape, found, FakeArtifacts())

    assert output.cut
    assert "éé" in output.text
    assert len(output.text) < 1_100_000
    assert not output.artifacts


@SHAPES
async def test_a_list_of_tools_that_is_too_large_is_not_cut(shape: Shape) -> None:
    large = {**USABLE, "description": "x" * 1_200_000}
    async with target(returning({"tools": [USABLE, large]}, shape)) as server:
        await server.unusable("larger than 1048576 bytes")


def in_no_session(message: str, code: int = -32000) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})


@pytest.mark.parametrize(
    ("body", "safe", "costs"),
    [
        (in_no_session("Bad Request: No valid session ID provided"), False, False),
        (in_no_session("Bad Request: Server not initialized"), False, False),
        ("Invalid session ID", False, False),
        ("", True, False),
        ("", False, True),
        (in_no_session("session_id is missing", -32602), True, True),
    ],
)
async def test_a_restarted_server_that_answers_400_costs_no_call_where_it_is_safe(
    body: str, safe: bool, costs: bool
) -> None:
    async def restarted(request: web.BaseRequest, message: Message) -> web.StreamResponse:
        if request.headers["mcp-session-id"] == "s1":
            return web.Response(status=400, text=body, content_type="application/json" if body[:1] == "{" else None)
        return in_json(message, saying("done"))

    async with target(returning(saying("done"))) as server:
        assert (await server.call(safe=safe)).text == "done"
        server.on_call, server.session = restarted, "s2"
        if costs:
            await server.failure(safe=safe)
            assert server.calls == 2
        assert (await server.call(safe=safe)).text == "done"
        assert server.calls == 3


@pytest.mark.parametrize("streamed", [False, True])
async def test_half_pairs_are_joined_or_replaced(streamed: bool) -> None:
    async def answer(request: web.BaseRequest, message: Message) -> web.StreamResponse:
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

    async with target(answer) as server:
        assert (await server.call()).text == "😀 �"


async def test_integers_of_any_size_reach_the_server_and_come_back() -> None:
    async def echo(_: web.BaseRequest, message: Message) -> web.StreamResponse:
        return in_json(message, {"content": [], "structuredContent": {"given": message["params"]["arguments"]["n"]}})

    async with target(echo) as server:
        assert (await server.call({"n": 12345678901234567890123})).text == '{"given":12345678901234567890123}'
