"""Tools that are described HTTP requests, against a target that may do anything."""

import asyncio
import base64
import codecs
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import quote, unquote

import pytest
import structlog

from libs.contracts.resources.secrets import secret_place
from libs.contracts.resources.toolsets import ConnectedTool
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
SECRET = 'pa/ss word+"Ü7'


@pytest.fixture
async def target() -> AsyncIterator[HostileTarget]:
    async with hostile_target() as target:
        yield target


class World:
    """The connector as the service has it, with names that lead to 127.0.0.1 or elsewhere."""

    def __init__(self) -> None:
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
        described = {"name": "ask", "method": "GET", **described}
        ciphertexts = {
            name: base64.b64encode(CIPHER.encrypt(value, place=secret_place(CALLER.company_id, name))).decode()
            for name, value in (secrets or {}).items()
        }
        toolset = Toolset(CALLER.company_id, "desk", 1, "http", {"tools": [described]}, (), ciphertexts)
        found = (await self.connector.discover(toolset)).tools
        # As the registry hands them out again.
        tools = tuple(ConnectedTool.model_validate_json(tool.model_dump_json()) for tool in found)
        return connected_tools(self.connector, replace(toolset, tools=tools))[0]

    async def call(self, tool: Tool, arguments: JsonObject | None = None) -> ToolOutput:
        return await self.tries.run(tool, arguments or {}, CONTEXT)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.http.close()


PARAMETERS = {"type": "object", "properties": {name: {} for name in ("id", "text", "tags", "count", "flag")}}


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


@pytest.mark.parametrize("value", ["../../admin", "a/b?c=d#e", "%2e%2e", "ü €", "x&y=z"])
async def test_an_argument_stays_in_its_segment(world: World, target: HostileTarget, value: str) -> None:
    tool = await world.tool(url=target.url("/files/{id}/data"), parameters=PARAMETERS)

    await world.call(tool, {"id": value})

    _, files, segment, data = target.taken[0].path.split("/")
    assert (files, unquote(segment), data) == ("files", value, "data")
    assert "?" not in segment


@pytest.mark.parametrize("arguments", [{"id": ".."}, {"id": "."}, {"id": ""}, {}])
async def test_an_argument_makes_no_other_path(world: World, target: HostileTarget, arguments: JsonObject) -> None:
    tool = await world.tool(url=target.url("/files/{id}"), parameters=PARAMETERS)

    with pytest.raises(ToolFailed, match="wasn't made"):
        await world.call(tool, arguments)
    assert target.taken == []


async def test_a_body_that_is_one_argument_keeps_its_type(world: World, target: HostileTarget) -> None:
    tool = await world.tool(method="PUT", url=target.url("/x"), body="{tags}", parameters=PARAMETERS)

    await world.call(tool, {"tags": [1, None, {"a": False}]})
    await world.call(tool, {})

    assert json.loads(target.taken[0].body) == [1, None, {"a": False}]
    assert target.taken[1].body == b""


async def test_forms_and_texts_are_sent_as_such(world: World, target: HostileTarget) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    body = {"a": "{text}", "b": "{tags}"}
    sent_form = await world.tool(method="POST", url=target.url("/"), headers=form, body=body, parameters=PARAMETERS)
    text = await world.tool(method="POST", url=target.url("/"), body="say {text} {{text}}", parameters=PARAMETERS)
    in_json = await world.tool(
        method="POST",
        url=target.url("/"),
        headers={"content-type": "application/json"},
        body='{"a": "{text}", "n": {count}}',
        parameters=PARAMETERS,
    )

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
        ({"url": "http://{id}.example/x"}, "only the path and the query can contain placeholders"),
        ({"url": "http://desk.example/{nothing}", "parameters": PARAMETERS}, "{nothing} isn't one of its parameters"),
        ({"url": "http://user:pass@desk.example/"}, "user name or password"),
        ({"url": "http://desk.example/", "parameters": {"type": "array"}}, "schema of type object"),
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
        (hanging, "didn't finish within 0.3 seconds"),
        (dripping, "didn't finish within 0.3 seconds"),
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
    tool = await world.tool(url=target.url("/"), retries=0)
    seconds = 0.3 if "0.3 seconds" in reason else 20.0
    tool.definition = replace(tool.definition, timeout_seconds=seconds)  # type: ignore[misc]

    async with asyncio.timeout(30):
        with pytest.raises(ToolFailed) as failure:
            await world.call(tool)
    assert reason in str(failure.value)


async def test_a_name_that_leads_inward_is_refused(world: World, target: HostileTarget) -> None:
    world.names = {"desk.example": [["10.0.0.7"]], "both.example": [["93.184.216.34", "127.0.0.2"]]}

    for host in world.names:
        tool = await world.tool(url=target.url("/", host))
        with pytest.raises(ToolFailed, match="refused: the host resolves to an address that isn't public"):
            await world.call(tool)
    assert target.connections == 0


async def test_a_name_that_leads_inward_after_a_good_call_is_refused(world: World, target: HostileTarget) -> None:
    world.names = {"desk.example": [["127.0.0.1"], ["10.0.0.7"]]}
    tool = await world.tool(method="POST", url=target.url("/", "desk.example"))

    await world.call(tool)

    with pytest.raises(ToolFailed, match="refused"):
        await world.call(tool)
    assert len(target.taken) == 1


async def test_safe_calls_of_a_toolset_share_connections(world: World, target: HostileTarget) -> None:
    read = await world.tool(url=target.url("/"))
    write = await world.tool(method="POST", url=target.url("/"))

    for _ in range(3):
        await world.call(read)
    assert target.connections == 1
    for _ in range(3):
        await world.call(write)
    assert target.connections == 4, "what is not safe to repeat is sent once, over a connection of its own"


async def test_a_safe_call_is_made_again_after_failures_that_may_pass(world: World, target: HostileTarget) -> None:
    answers = iter(
        [
            answering(b"", status="503 Service Unavailable"),
            answering(b"", status="429 Too Many Requests", more="Retry-After: 7\r\n"),
            answering(b'"done"'),
        ]
    )

    async def answer(request: Taken, writer: asyncio.StreamWriter) -> None:
        await next(answers)(request, writer)

    target.answers = {"/": answer}

    assert (await world.call(await world.tool(url=target.url("/")))).text == '"done"'
    assert world.waits == [1.0, 7.0]
    assert [request.headers["idempotency-key"] for request in target.taken] == ["turn_1.call_1"] * 3


@pytest.mark.rule(34)
async def test_an_unsafe_call_is_made_once(world: World, target: HostileTarget) -> None:
    target.answers = {"/": closing}
    tool = await world.tool(method="POST", url=target.url("/"))

    with pytest.raises(ToolFailed, match="It's unknown whether the target executed it"):
        await world.call(tool)
    assert len(target.taken) == 1


async def test_nobody_there_is_a_failed_result(world: World, target: HostileTarget) -> None:
    tool = await world.tool(url="http://127.0.0.1:9/")

    with pytest.raises(ToolFailed, match=r"the host can't be reached.* \(3 attempts\)"):
        await world.call(tool)
    assert world.waits == [1.0, 4.0]


async def test_another_host_gets_no_headers_of_the_toolset(world: World, target: HostileTarget) -> None:
    async with hostile_target() as elsewhere:
        target.answers = {"/": redirecting(elsewhere.url("/x"), "307 Temporary Redirect")}
        tool = await world.tool({"KEY": SECRET}, url=target.url("/"), headers={"X-Key": "${secret:KEY}"})

        await world.call(tool)

        assert "x-key" in target.taken[0].headers
        assert "x-key" not in elsewhere.taken[0].headers


async def test_a_redirected_post_is_not_posted_twice(world: World, target: HostileTarget) -> None:
    target.answers = {"/": redirecting("/done", "303 See Other")}
    tool = await world.tool(method="POST", url=target.url("/"), body={"a": 1})

    await world.call(tool)

    assert [(request.method, request.body) for request in target.taken] == [("POST", b'{"a": 1}'), ("GET", b"")]


@contextmanager
def _everything_logged() -> Iterator[list[str]]:
    lines: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Handler()
    logging.getLogger().addHandler(handler)
    try:
        with structlog.testing.capture_logs() as events:
            yield lines
            lines += [json.dumps(event, default=str) for event in events]
    finally:
        logging.getLogger().removeHandler(handler)


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
async def test_a_secret_is_in_the_request_and_in_no_result(world: World, target: HostileTarget, status: str) -> None:
    secret = "s3cr/et+?value~42"
    echo = "\n".join(_echoes(secret)).encode()
    target.answers = {"/": answering(echo, status=status, kind="text/plain")}
    tool = await world.tool({"KEY": secret}, url=target.url("/"), headers={"Authorization": "Bearer ${secret:KEY}"})

    with _everything_logged() as lines:
        try:
            told = (await world.call(tool)).text
        except ToolFailed as problem:
            told = str(problem)

    assert target.taken[0].headers["authorization"] == f"Bearer {secret}"
    assert told.count("[secret]") >= 8
    middle = base64.b64encode(secret.encode()).decode()[:12]
    for form in [secret, quote(secret), quote(secret, safe=""), middle, secret.encode().hex()]:
        assert form not in told
        assert not any(form in line for line in lines)


@pytest.mark.parametrize(
    ("secrets", "reason"),
    [
        ({}, r"the secret 'KEY' in \$\{secret:KEY\} doesn't exist"),
        ({"KEY": "two\nlines"}, r"the value of \$\{secret:KEY\} contains characters that aren't allowed in headers"),
    ],
)
async def test_a_secret_that_cannot_be_used_is_named(
    world: World, target: HostileTarget, secrets: dict[str, str], reason: str
) -> None:
    tool = await world.tool(secrets, url=target.url("/"), headers={"X-Key": "${secret:KEY}"})

    with pytest.raises(ToolFailed, match=reason):
        await world.call(tool)
    assert target.taken == []


async def test_a_secret_of_another_company_does_not_open(world: World, target: HostileTarget) -> None:
    tool = await world.tool({"KEY": SECRET}, url=target.url("/"), headers={"X-Key": "${secret:KEY}"})
    stolen = replace(tool._toolset, company_id="another")  # type: ignore[attr-defined]

    with pytest.raises(ToolFailed, match="can't be decrypted"):
        await world.call(connected_tools(world.connector, stolen)[0])
    assert target.taken == []


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (codecs.BOM_UTF8 + '{"name": "Zoë"}'.encode(), "application/json"),
        (codecs.BOM_UTF8 + '{"name": "Zoë"}'.encode(), "application/problem+json; charset=utf-8"),
        ('{"name": "Zoë"}'.encode("utf-16"), "application/json"),
        ('{"name": "Zoë"}'.encode("utf-16"), "application/json; charset=utf-8"),
        ('{"name": "Zoë"}'.encode("utf-16-le"), "application/json"),
        ('{"name": "Zoë"}'.encode("utf-16-be"), "application/json; charset=utf-16be"),
        ('{"name": "Zoë"}'.encode("utf-32"), "application/vnd.a+json"),
        ('{"name": "Zoë"}'.encode("latin-1"), "application/json; charset=iso-8859-1"),
        ('{"name": "Zoë"}'.encode("utf-16"), "text/plain"),
        ('{"name": "Zoë"}'.encode("utf-16-be"), "text/plain; charset=utf-16be"),
    ],
)
async def test_an_answer_is_text_in_whatever_encoding(
    world: World, target: HostileTarget, body: bytes, kind: str
) -> None:
    target.answers = {"/": answering(body, kind=kind)}

    assert (await world.call(await world.tool(url=target.url("/")))).text == '{"name": "Zoë"}'


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
async def test_xml_names_its_encoding_itself(world: World, target: HostileTarget, encoding: str) -> None:
    text = f"<?xml version='1.0' encoding='{encoding}'?><name>Zoë</name>"
    target.answers = {"/": answering(text.encode(encoding), kind="application/xml")}

    assert (await world.call(await world.tool(url=target.url("/")))).text == text


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
async def test_a_problem_is_told_in_whatever_encoding(world: World, target: HostileTarget, encoding: str) -> None:
    body = '{"title": "voll"}'.encode(encoding)
    target.answers = {"/": answering(body, status="409 Conflict", kind="application/problem+json")}

    with pytest.raises(ToolFailed) as failure:
        await world.call(await world.tool(url=target.url("/")))
    assert str(failure.value) == 'The target returned status 409: {"title": "voll"}'


@pytest.mark.parametrize("kind", ["application/json", "text/plain", "application/octet-stream"])
@pytest.mark.parametrize("shift", ["", "x"])
async def test_an_answer_that_is_too_large_is_cut(world: World, target: HostileTarget, kind: str, shift: str) -> None:
    target.answers = {"/": answering((shift + "é" * 600_000).encode(), kind=kind)}

    output = await world.call(await world.tool(url=target.url("/")))

    assert output.cut
    assert output.text == shift + "é" * (500_000 - len(shift))
    assert cut_result(output.text, cut=output.cut).endswith(
        f"[truncated: more than {len(output.text)} characters in total]"
    )


async def test_a_flood_is_read_to_the_limit(world: World, target: HostileTarget) -> None:
    target.answers = {"/": flooding}

    output = await world.call(await world.tool(url=target.url("/")))
    assert (output.text, output.cut) == ("x" * 1_000_000, True)


async def test_a_large_failure_is_told(world: World, target: HostileTarget) -> None:
    body = ("no seats " * 200_000).encode()
    target.answers = {"/": answering(body, status="409 Conflict", kind="text/plain")}

    with pytest.raises(ToolFailed, match="status 409: no seats"):
        await world.call(await world.tool(url=target.url("/")))


@pytest.mark.parametrize("status", ["200 OK", "400 Bad Request"])
async def test_half_pairs_in_an_answer_are_replaced(world: World, target: HostileTarget, status: str) -> None:
    target.answers["/"] = answering(rb'{"a": "\ud83d\ude00 \ud83d"}', status=status)
    tool = await world.tool(url=target.url("/"))
    try:
        told = (await world.call(tool)).text
    except ToolFailed as failure:
        told = str(failure)
    assert '{"a": "😀 �"}' in told


async def test_integers_of_any_size_reach_the_target(world: World, target: HostileTarget) -> None:
    tool = await world.tool(
        method="POST", url=target.url("/{id}"), query={"n": "{id}"}, body={"n": "{id}"}, parameters=PARAMETERS
    )
    await world.call(tool, {"id": 12345678901234567890123})
    [request] = target.taken
    assert request.path == "/12345678901234567890123?n=12345678901234567890123"
    assert request.body == b'{"n": 12345678901234567890123}'
