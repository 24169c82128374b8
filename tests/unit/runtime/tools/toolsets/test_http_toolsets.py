"""Tools that are described HTTP requests, against a target that may do anything."""

import asyncio
import base64
import codecs
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import pytest
import structlog

from libs.contracts.resources.secrets import secret_context
from libs.contracts.resources.toolsets import ConnectedTool, DiscoveredTools, LeftOutTool
from libs.outbound import GuardedResolver, is_public
from libs.secrets import SecretCipher
from services.runtime.adapters.tools.toolsets.http.connector import HttpConnector
from services.runtime.adapters.tools.toolsets.http_target import HttpTarget
from services.runtime.adapters.tools.toolsets.masking import MaskedConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import Tool, ToolContext, ToolFailed, ToolOutput, cut_result
from services.runtime.domain.toolsets import Toolset, ToolsetConnector, ToolsetUnusable, connected_tools
from services.runtime.use_cases.agent.tool_tries import ToolTries
from tests.support.agent_fakes import CALLER
from tests.support.hostile_target import (
    Answer,
    HostileTarget,
    Taken,
    answering,
    breaking_off,
    closing,
    dripping,
    flooding,
    hanging,
    hostile_target,
    not_http,
    redirecting,
)

CONTEXT = ToolContext("call_1", "turn_1", "session", CALLER)
CIPHER = SecretCipher([bytes(32)])
SECRET, WITH_KEY = 'pa/ss word+"Ü7', {"X-Key": "${secret:KEY}"}


PARAMETERS = {"type": "object", "properties": {name: {} for name in ("id", "text", "tags", "count", "flag")}}


def encrypted(secrets: dict[str, str]) -> dict[str, str]:
    return {
        name: base64.b64encode(CIPHER.encrypt(value, context=secret_context(CALLER.company_id, name))).decode()
        for name, value in secrets.items()
    }


class World:
    """The connector as the service has it, with a target and names that lead to 127.0.0.1 or elsewhere."""

    def __init__(self, target: HostileTarget) -> None:
        self.target = target
        self.names: dict[str, list[list[str]]] = {}
        secrets = ToolsetSecrets(CIPHER)
        self.http = HttpTarget(GuardedResolver(self._allowed, self._resolve), secrets)
        self.connector: ToolsetConnector = MaskedConnector(HttpConnector(self.http), secrets)
        self.waits: list[float] = []
        self.tries = ToolTries(sleep=self._sleep)

    def _allowed(self, address: str) -> bool:
        return address == "127.0.0.1" or is_public(address)

    async def _resolve(self, host: str, _port: int) -> list[str]:
        answers = self.names[host]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def _sleep(self, seconds: float) -> None:
        self.waits.append(seconds)

    async def tool(self, secrets: dict[str, str] | None = None, **described: Any) -> Tool:
        described = {"name": "ask", "method": "GET", "url": self.target.url(), **described}
        config = {"tools": [described]}
        toolset = Toolset(CALLER.company_id, "desk", 1, "http", config, (), encrypted(secrets or {}))
        found = (await self.connector.discover(toolset)).tools
        # As the registry hands them out again.
        tools = tuple(ConnectedTool.model_validate_json(tool.model_dump_json()) for tool in found)
        return connected_tools(self.connector, replace(toolset, tools=tools))[0]

    async def call(self, tool: Tool, arguments: JsonObject | None = None) -> ToolOutput:
        return await self.tries.run(tool, arguments or {}, CONTEXT)

    async def told(self, answer: Answer, secrets: dict[str, str] | None = None, **described: Any) -> str:
        """The text that the model gets from the target's answer: a result or a failure."""
        self.target.answers["/"] = answer
        try:
            return (await self.call(await self.tool(secrets, **described))).text
        except ToolFailed as failure:
            return str(failure)


@pytest.fixture
async def target() -> AsyncIterator[HostileTarget]:
    async with hostile_target() as target:
        yield target


@pytest.fixture
async def world(target: HostileTarget) -> AsyncIterator[World]:
    world = World(target)
    yield world
    await world.http.close()


async def test_a_described_request_is_made(world: World, target: HostileTarget) -> None:
    tool = await world.tool(
        method="POST",
        url=target.url("/tickets/{id}/notes?kind={flag}"),
        headers={"X-Desk": "north"},
        query={"tag": "{tags}", "page": 2, "missing": "{count}"},
        body={
            "text": "{text}",
            "all": {"of": ["{count}", "{tags}"]},
            "said": "{text}!",
            "n": "{id}",
            "gone": "{count}",
        },
        parameters=PARAMETERS,
    )

    output = await world.call(tool, {"id": 7, "text": 'a "b" ü', "tags": ["x&y", "z"], "flag": True})

    assert output.text == "{}"
    request = target.taken[0]
    assert (request.method, request.path) == ("POST", "/tickets/7/notes?kind=true&tag=x%26y&tag=z&page=2")
    assert json.loads(request.body) == {
        "text": 'a "b" ü',
        "all": {"of": [["x&y", "z"]]},
        "said": 'a "b" ü!',
        "n": 7,
    }
    assert request.headers["x-desk"] == "north"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["idempotency-key"] == "turn_1.call_1"
    assert tool.definition.name == "desk.ask"
    assert tool.definition.safe_to_repeat is False


async def test_an_argument_stays_in_its_segment_and_makes_no_other_path(world: World, target: HostileTarget) -> None:
    tool = await world.tool(url=target.url("/files/{id}/data"), parameters=PARAMETERS)

    refused: list[JsonObject] = [{"id": ".."}, {"id": "."}, {"id": ""}, {}]
    for arguments in refused:
        with pytest.raises(ToolFailed, match="wasn't made"):
            await world.call(tool, arguments)
    assert target.taken == []
    for value in ("../../admin", "a/b?c=d#e", "%2e%2e", "ü €", "x&y=z"):
        await world.call(tool, {"id": value})
        _, files, segment, data = target.taken.pop().path.split("/")
        assert (files, unquote(segment), data) == ("files", value, "data")
        assert "?" not in segment


async def test_a_body_that_is_one_argument_keeps_its_type(world: World, target: HostileTarget) -> None:
    tool = await world.tool(method="PUT", url=target.url("/x"), body="{tags}", parameters=PARAMETERS)

    await world.call(tool, {"tags": [1, None, {"a": False}]})
    await world.call(tool, {})

    assert json.loads(target.taken[0].body) == [1, None, {"a": False}]
    assert target.taken[1].body == b""


async def test_forms_and_texts_are_sent_as_such(world: World, target: HostileTarget) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = {"a": "{text}", "b": "{tags}"}
    post: dict[str, Any] = {"method": "POST", "parameters": PARAMETERS}
    sent_form = await world.tool(headers=form, body=body, **post)
    text = await world.tool(body="say {text} {{text}}", **post)
    as_json = {"content-type": "application/json"}
    in_json = await world.tool(headers=as_json, body='{"a": "{text}", "n": {count}}', **post)

    await world.call(sent_form, {"text": "a b", "tags": [1, 2]})
    await world.call(text, {"text": "hello"})
    await world.call(in_json, {"text": '"quoted"', "count": 3})

    assert [request.body for request in target.taken[:2]] == [b"a=a+b&b=1&b=2", b"say hello {text}"]
    assert json.loads(target.taken[2].body) == {"a": '"quoted"', "n": 3}


async def test_a_tool_without_parameters_has_those_of_its_placeholders(world: World, target: HostileTarget) -> None:
    tool = await world.tool(url=target.url("/{id}"), query={"q": "{text}"})

    assert tool.definition.parameters["required"] == ["id"]
    assert sorted(tool.definition.parameters["properties"]) == ["id", "text"]


@pytest.mark.parametrize(
    ("described", "reason"),
    [
        ({"url": "http://{id}.example/x"}, "`url` can have placeholders in its path and query only"),
        ({"url": "http://desk.example/{nothing}", "parameters": PARAMETERS}, "`parameters` has no property 'nothing'"),
        ({"url": "http://user:pass@desk.example/"}, "user name or password"),
        ({"url": "http://desk.example/", "parameters": {"type": "array"}}, "schema of type `object`"),
        ({"url": "http://desk.example/", "parameters": {"type": "object", "properties": {"a": 5}}}, "parameters"),
        ({"url": "http://desk.example/", "headers": {"Content-Length": "3"}}, "the service sets the header"),
        ({"url": "http://desk.example/", "headers": {"transfer-encoding": "chunked"}}, "the service sets the header"),
    ],
)
async def test_a_description_that_cannot_work_is_refused(world: World, described: JsonObject, reason: str) -> None:
    with pytest.raises(ToolsetUnusable, match=reason.replace("{", r"\{")):
        await world.tool(**described)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (hanging, "didn't finish within 0.3 s"),
        (dripping, "didn't finish within 0.3 s"),
        (breaking_off, "the connection failed: ClientPayloadError"),
        (closing, "the connection failed: ServerDisconnectedError"),
        (not_http, "the connection failed"),
        (answering(b'{"half": '), 'isn\'t valid JSON, despite its content type: {"half":'),
        (answering(b"\x89PNG\0\0", kind="image/png"), "content of type image/png, which isn't text"),
        (answering(b"\0\1\2", kind="application/octet-stream"), "which isn't text"),
        (answering(b"nothing here", status="404 Not Found", kind="text/plain"), "status 404: nothing here"),
        (answering(b"{}", more="Content-Encoding: gzip\r\n"), "compressed"),
        (redirecting("http://10.1.2.3/"), "refused: the host resolves to an address that isn't public"),
        (redirecting("http://169.254.169.254/latest/meta-data"), "isn't public"),
        (redirecting("file:///etc/passwd"), "only http:// and https://"),
        (redirecting("/again"), "more than 4 redirects"),
    ],
)
async def test_a_hostile_target_is_a_failed_result(
    world: World, target: HostileTarget, answer: Answer, reason: str
) -> None:
    target.answers = {"/": answer, "/again": redirecting("/again")}
    tool = await world.tool(retries=0)
    seconds = 0.3 if "0.3 s" in reason else 20.0
    tool = replace(tool, definition=replace(tool.definition, timeout_seconds=seconds))  # type: ignore[type-var]

    async with asyncio.timeout(30):
        with pytest.raises(ToolFailed) as failure:
            await world.call(tool)
    assert reason in str(failure.value)


async def test_a_name_that_leads_inward_is_refused_also_after_a_good_call(world: World, target: HostileTarget) -> None:
    inward = {"in.example": [["10.0.0.7"]], "both.example": [["93.184.216.34", "127.0.0.2"]]}
    world.names = {"desk.example": [["127.0.0.1"], ["10.0.0.7"]], **inward}
    await world.call(await world.tool(method="POST", url=target.url("/", "desk.example")))

    for host in world.names:
        tool = await world.tool(method="POST", url=target.url("/", host))
        with pytest.raises(ToolFailed, match="refused: the host resolves to an address that isn't public"):
            await world.call(tool)
    assert (target.connections, len(target.taken)) == (1, 1)


async def test_safe_calls_of_a_toolset_share_connections(world: World, target: HostileTarget) -> None:
    for method, connections in (("GET", 1), ("POST", 4)):
        tool = await world.tool(method=method)
        for _ in range(3):
            await world.call(tool)
        assert target.connections == connections, "what is unsafe is sent once, over a connection of its own"


async def test_a_safe_call_is_made_again_after_failures_that_may_pass(world: World, target: HostileTarget) -> None:
    busy = answering(b"", status="429 Too Many Requests", more="Retry-After: 7\r\n")
    answers = iter([answering(b"", status="503 Service Unavailable"), busy, answering(b'"done"')])

    async def answer(request: Taken, writer: asyncio.StreamWriter) -> None:
        await next(answers)(request, writer)

    assert await world.told(answer) == '"done"'
    assert world.waits == [1.0, 7.0]
    assert [request.headers["idempotency-key"] for request in target.taken] == ["turn_1.call_1"] * 3


@pytest.mark.rule(34)
async def test_an_unsafe_call_is_made_once(world: World, target: HostileTarget) -> None:
    assert "It's unknown whether the target executed it" in await world.told(closing, method="POST")
    assert len(target.taken) == 1


async def test_nobody_there_is_a_failed_result(world: World) -> None:
    tool = await world.tool(url="http://127.0.0.1:9/")

    with pytest.raises(ToolFailed, match=r"the host can't be reached.* \(3 attempts\)"):
        await world.call(tool)
    assert world.waits == [1.0, 4.0]


async def test_another_host_gets_no_headers_of_the_toolset(world: World, target: HostileTarget) -> None:
    async with hostile_target() as elsewhere:
        await world.told(redirecting(elsewhere.url("/x"), "307 Temporary Redirect"), {"KEY": SECRET}, headers=WITH_KEY)

        assert "x-key" in target.taken[0].headers
        assert "x-key" not in elsewhere.taken[0].headers


async def test_a_redirected_post_is_not_posted_twice(world: World, target: HostileTarget) -> None:
    await world.told(redirecting("/done", "303 See Other"), method="POST", body={"a": 1})

    assert [(request.method, request.body) for request in target.taken] == [("POST", b'{"a": 1}'), ("GET", b"")]


def _echoes(text: str) -> list[str]:
    raw = text.encode()
    return [
        text,
        quote(text),
        quote(text, safe="").lower().replace("%c3%9c", "%C3%9C"),
        base64.b64encode(raw).decode(),
        base64.b64encode(b"user:" + raw + b"!").decode(),
        base64.urlsafe_b64encode(b"x" + raw).decode(),
        json.dumps(text),
        raw.hex(),
    ]


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_a_secret_is_in_the_request_and_in_no_result(
    world: World, target: HostileTarget, status: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "s3cr/et+?value~42"
    echo = answering("\n".join(_echoes(secret)).encode(), status=status, kind="text/plain")
    with caplog.at_level(logging.DEBUG), structlog.testing.capture_logs() as events:
        told = await world.told(echo, {"KEY": secret}, headers={"Authorization": "Bearer ${secret:KEY}"})

    assert target.taken[0].headers["authorization"] == f"Bearer {secret}"
    assert told.count("[secret]") >= 8
    logged = caplog.text + json.dumps(events, default=str)
    middle = base64.b64encode(secret.encode()).decode()[:12]
    for form in [secret, quote(secret), quote(secret, safe=""), middle, secret.encode().hex()]:
        assert form not in told
        assert form not in logged


async def test_a_secret_that_cannot_be_used_is_named(world: World, target: HostileTarget) -> None:
    for secrets, reason in (
        ({}, "the secret 'KEY' in ${secret:KEY} doesn't exist"),
        ({"KEY": "two\nlines"}, "the value of ${secret:KEY} contains characters that aren't allowed in headers"),
    ):
        assert reason in await world.told(answering(b"{}"), secrets, headers=WITH_KEY)
    assert target.taken == []


async def test_a_secret_of_another_company_does_not_open(world: World, target: HostileTarget) -> None:
    tool = await world.tool({"KEY": SECRET}, headers=WITH_KEY)
    stolen = replace(tool.toolset, company_id="another")  # type: ignore[attr-defined]

    with pytest.raises(ToolFailed, match="can't be decrypted"):
        await world.call(connected_tools(world.connector, stolen)[0])
    assert target.taken == []


NAME, BOM = '{"name": "Zoë"}', codecs.BOM_UTF8


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (BOM + NAME.encode(), "application/json"),
        (BOM + NAME.encode(), "application/problem+json; charset=utf-8"),
        (NAME.encode("utf-16"), "application/json"),
        (NAME.encode("utf-16"), "application/json; charset=utf-8"),
        (NAME.encode("utf-16-le"), "application/json"),
        (NAME.encode("utf-16-be"), "application/json; charset=utf-16be"),
        (NAME.encode("utf-32"), "application/vnd.a+json"),
        (NAME.encode("latin-1"), "application/json; charset=iso-8859-1"),
        (NAME.encode("utf-16"), "text/plain"),
        (NAME.encode("utf-16-be"), "text/plain; charset=utf-16be"),
    ],
)
async def test_an_answer_is_text_in_whatever_encoding(world: World, body: bytes, kind: str) -> None:
    assert await world.told(answering(body, kind=kind)) == NAME
    problem = answering(body, status="409 Conflict", kind=kind)
    assert await world.told(problem) == f"The target returned status 409: {NAME}"


async def test_xml_names_its_encoding_itself(world: World) -> None:
    for encoding in ("utf-8", "utf-16", "iso-8859-1"):
        text = f"<?xml version='1.0' encoding='{encoding}'?><name>Zoë</name>"
        assert await world.told(answering(text.encode(encoding), kind="application/xml")) == text


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
@pytest.mark.parametrize("shift", ["", "x"])
async def test_an_answer_that_is_too_large_is_cut(world: World, target: HostileTarget, kind: str, shift: str) -> None:
    target.answers = {"/": answering((shift + "é" * 600_000).encode(), kind=kind)}

    output = await world.call(await world.tool())

    assert output.cut
    assert output.text == shift + "é" * (500_000 - len(shift))
    assert cut_result(output.text, cut=output.cut).endswith(
        f"[truncated: more than {len(output.text)} characters in total]"
    )


async def test_a_flood_is_read_to_the_limit_and_a_large_failure_told(world: World) -> None:
    assert await world.told(flooding) == "x" * 1_000_000
    large = answering(("no seats " * 200_000).encode(), status="409 Conflict", kind="text/plain")
    assert "status 409: no seats" in await world.told(large)


async def test_half_pairs_in_an_answer_are_replaced(world: World) -> None:
    for status in ("200 OK", "400 Bad Request"):
        told = await world.told(answering(rb'{"a": "\ud83d\ude00 \ud83d"}', status=status))
        assert '{"a": "😀 �"}' in told


async def test_integers_of_any_size_reach_the_target(world: World, target: HostileTarget) -> None:
    tool = await world.tool(
        method="POST", url=target.url("/{id}"), query={"n": "{id}"}, body={"n": "{id}"}, parameters=PARAMETERS
    )
    await world.call(tool, {"id": 12345678901234567890123})
    [request] = target.taken
    assert request.path == "/12345678901234567890123?n=12345678901234567890123"
    assert request.body == b'{"n": 12345678901234567890123}'


class Listing:
    """A ToolsetConnector whose target lists these tools."""

    def __init__(self, *tools: ConnectedTool, left_out: tuple[LeftOutTool, ...] = ()) -> None:
        self.found = DiscoveredTools(tools=list(tools), left_out=list(left_out))

    async def discover(self, _toolset: Toolset, /) -> DiscoveredTools:
        return self.found

    async def call(
        self, _toolset: Toolset, _tool: ConnectedTool, _arguments: JsonObject, _context: ToolContext, /
    ) -> ToolOutput:
        raise NotImplementedError


def echoing(secret: str) -> Toolset:
    return Toolset(CALLER.company_id, "desk", 1, "mcp", {}, (), encrypted({"KEY": secret}))


async def discovered(secret: str, listing: Listing) -> DiscoveredTools:
    return await MaskedConnector(listing, ToolsetSecrets(CIPHER)).discover(echoing(secret))


async def test_a_secret_is_in_no_word_about_a_tool_and_its_parameters() -> None:
    by_key = {"type": "string", "title": "swordfish", "default": "Bearer swordfish", "examples": [["swordfish"]]}
    parameters = {"type": "object", "$defs": {"key": by_key}, "properties": {"key": {"$ref": "#/$defs/key"}}}
    tool = ConnectedTool(name="find", description="Finds for swordfish.", parameters=parameters)
    left_out = LeftOutTool(name="find swordfish", reason="its schema has swordfish")

    found = await discovered("swordfish", Listing(tool, left_out=(left_out,)))

    assert "swordfish" not in found.model_dump_json()
    assert found.tools[0].description == "Finds for [secret]."
    masked = {"type": "string", "title": "[secret]", "default": "Bearer [secret]", "examples": [["[secret]"]]}
    assert found.tools[0].parameters["$defs"]["key"] == masked
    assert [(each.name, each.reason) for each in found.left_out] == [("find [secret]", "its schema has [secret]")]


async def test_words_that_calls_are_checked_by_stay() -> None:
    parameters = {"type": "object", "properties": {"object": {"type": "string"}}, "required": ["object"]}
    tool = ConnectedTool(name="object", description="", parameters=parameters)

    assert (await discovered("object", Listing(tool))).tools == [tool]


async def test_a_secret_is_masked_in_either_case() -> None:
    mask = ToolsetSecrets(CIPHER).mask(echoing("FerryDeskKey42"))
    assert mask.hide("content of type application/ferrydeskkey42") == "content of type application/[secret]"
    assert mask.hide("HOST FERRYDESKKEY42.example") == "HOST [secret].example"
