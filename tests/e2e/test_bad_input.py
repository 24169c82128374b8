"""Bad requests: the documented status and error, never a 500, and nothing half-done."""

import json
import socket
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.running_stack import RunningStack

JSON, YAML = "application/json", "application/yaml"
BAD, INVALID = (400, "invalid_request_error"), (422, "validation_error")
Fault = tuple[int, str]
DEEP = 5_000


def nested(opening: str, closing: str, inside: str = "1") -> str:
    return opening * DEEP + inside + closing * DEEP


def bomb() -> str:
    """A billion texts in nine lines."""
    lines = ['a: &a ["x", "x", "x", "x", "x", "x", "x", "x", "x", "x"]']
    names = "abcdefghij"
    for earlier, name in pairwise(names):
        lines.append(f"{name}: &{name} [{', '.join([f'*{earlier}'] * 10)}]")
    return "\n".join([*lines, "content: *j"])


# Bodies of an execute request, whose only good form is {"content": …}.
MALFORMED_JSON: dict[str, tuple[bytes, Fault]] = {
    "empty": (b"", BAD),
    "blank": (b"   ", BAD),
    "cut": (b'{"content": "hi"', BAD),
    "single quotes": (b"{'content': 'hi'}", BAD),
    "trailing comma": (b'{"content": "hi",}', BAD),
    "two documents": (b'{"content": "hi"}{"content": "ho"}', BAD),
    "a comment": (b'{"content": "hi"} // yes', BAD),
    "NaN": (b'{"content": NaN}', BAD),
    "Infinity": (b'{"content": -Infinity}', BAD),
    "a control character": (b'{"content": "a\x01b"}', BAD),
    "a raw NUL": (b'{"content": "a\x00b"}', BAD),
    "an escaped NUL": (b'{"content": "a\\u0000b"}', INVALID),
    "NUL in a name": (b'{"con\\u0000tent": "a"}', INVALID),
    "a lone surrogate": (b'{"content": "\\ud800"}', BAD),
    "a lone surrogate in a name": (b'{"\\udfff": "x"}', BAD),
    "surrogates in the wrong order": (b'{"content": "\\udc00\\ud800"}', BAD),
    "a raw surrogate": (b'{"content": "\xed\xa0\x80"}', BAD),
    "invalid UTF-8": (b'{"content": "\xff\xfe"}', BAD),
    "UTF-16": ('{"content": "hi"}'.encode("utf-16"), BAD),
    "a cut character": (b'{"content": "\xe2\x82"}', BAD),
    "a duplicate key": (b'{"content": "a", "content": "b"}', BAD),
    "a duplicate key inside": (b'{"content": [{"type": "text", "type": "text", "text": "x"}]}', BAD),
    "deep arrays": (b'{"content": ' + nested("[", "]").encode() + b"}", BAD),
    "deep objects": (b'{"content": ' + nested('{"a":', "}").encode() + b"}", BAD),
    "a long integer": (b'{"content": ' + b"9" * 5000 + b"}", INVALID),
    "a large integer": (b'{"content": 9223372036854775808}', INVALID),
    "a large exponent": (b'{"content": 1e400}', INVALID),
    "an array": (b'[{"content": "hi"}]', INVALID),
    "a text": (b'"content"', INVALID),
    "null": (b"null", INVALID),
    "no fields": (b"{}", INVALID),
}
MALFORMED_YAML: dict[str, tuple[bytes, Fault]] = {
    "an unclosed bracket": (b"content: [1, 2", BAD),
    "bad indentation": (b"content: a\n  b: c\n d: e", BAD),
    "a tab": (b"content:\n\t- x", BAD),
    "two documents": (b"content: a\n---\ncontent: b", BAD),
    "a python tag": (b"content: !!python/object/apply:os.system ['touch /tmp/owned']", BAD),
    "a custom tag": (b"content: !secret hi", BAD),
    "a core tag": (b"content: !!str hi", BAD),
    "a tag on the document": (b"!!map {content: hi}", BAD),
    "an anchor": (b"content: &a hi", BAD),
    "an alias bomb": (bomb().encode(), BAD),
    "an alias to itself": (b"content: &a [*a]", BAD),
    "a merge key": (b"base: &b {content: hi}\n<<: *b", BAD),
    "a duplicate key": (b"content: a\ncontent: b", BAD),
    "a key that is a list": (b"[1, 2]: x", BAD),
    "deep lists": (b"content: " + nested("[", "]").encode(), BAD),
    "deep mappings": (b"content: " + nested("{a: ", "}").encode(), BAD),
    "invalid UTF-8": (b"content: \xff", BAD),
    "a NUL": (b"content: a\x00b", BAD),
    "an escaped NUL": (b'content: "a\\0b"', INVALID),
    "a lone surrogate": (b'content: "\\ud800"', BAD),
    "a number": (b"content: 12", INVALID),
    "a truth": (b"content: true", INVALID),
    "a large number": (b"content: " + b"9" * 100, INVALID),
    "not a number": (b"content: .nan", INVALID),
    "a text": (b"hello", INVALID),
    "nothing": (b"# nothing\n", INVALID),
}
# Values of an execute request that are well written and wrong.
WRONG: dict[str, Any] = {
    "an unknown field": {"content": "hi", "contnet": "hi"},
    "a number": {"content": 1},
    "a truth": {"content": True},
    "null": {"content": None},
    "an object": {"content": {"type": "text", "text": "hi"}},
    "an empty text": {"content": ""},
    "no blocks": {"content": []},
    "an empty block": {"content": [{"type": "text", "text": ""}]},
    "a block that is a text": {"content": ["hi"]},
    "a block without a type": {"content": [{"text": "hi"}]},
    "a block of unknown type": {"content": [{"type": "video", "url": "x"}]},
    "a block with an unknown field": {"content": [{"type": "text", "text": "hi", "bold": True}]},
    "too many blocks": {"content": [{"type": "text", "text": "hi"}] * 101},
    "an image in the request": {"content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]},
    "an image from a file": {"content": [{"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}]},
    "an image without a url": {"content": [{"type": "image_url", "image_url": {}}]},
    "an artifact, without artifacts": {"content": [{"type": "file", "source": {"artifact_id": "x"}}]},
    "an image artifact, without artifacts": {"content": [{"type": "image", "url": "http://x/y"}]},
    "an empty correlation id": {"content": "hi", "correlation_id": ""},
    "a long correlation id": {"content": "hi", "correlation_id": "c" * 129},
    "a correlation id with a space": {"content": "hi", "correlation_id": "a b"},
    "a correlation id with a line break": {"content": "hi", "correlation_id": "a\n"},
    "a correlation id that is a number": {"content": "hi", "correlation_id": 1},
}
WRONG_CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "no name": {"name": None},
    "an empty name": {"name": ""},
    "a long name": {"name": "n" * 201},
    "an unknown type": {"agent_type": "wizard"},
    "an unknown field": {"prompt": "x"},
    "an unknown model field": {"llm_config": {"model": "openai:stub", "temprature": 1}},
    "a temperature in words": {"llm_config": {"model": "openai:stub", "temperature": "hot"}},
    "a temperature out of range": {"llm_config": {"model": "openai:stub", "temperature": 2.1}},
    "a huge temperature": {"llm_config": {"model": "openai:stub", "temperature": 1e300}},
    "a truth for a number": {"llm_config": {"model": "openai:stub", "temperature": True}},
    "a large number": {"llm_config": {"model": "openai:stub", "max_tokens": 2**62}},
    "a model without provider": {"llm_config": {"model": "stub"}},
    "an unknown provider": {"llm_config": {"model": "nobody:stub"}},
    "a provider without key": {"llm_config": {"model": "openrouter:x"}},
    "an unknown built-in model": {"llm_config": {"model": "builtin:oracle"}},
    "a tool that is no text": {"tools": [1]},
    "tools in one text": {"tools": "calculator"},
    "an unknown tool": {"tools": ["no_such_tool"]},
    "too many tools": {"tools": ["calculator"] * 65},
    "a knowledge base of the wrong shape": {"knowledge_bases": [{"id": 1}]},
    "a very long prompt": {"system_prompt": "p" * 200_001},
}


@pytest.fixture
async def session(api: Api) -> str:
    return await api.session("openai:stub-echo")


async def check_refused(api: Api, session: str, reply: httpx.Response, fault: Fault) -> dict[str, Any]:
    error = check_error(reply, *fault)
    if fault == INVALID:
        assert error["details"]
    assert await api.messages(session) == []
    return error


def of(cases: dict[str, Any]) -> list[Any]:
    return [pytest.param(case, id=name) for name, case in cases.items()]


@pytest.mark.parametrize("case", of(MALFORMED_JSON))
async def test_bad_json(api: Api, session: str, case: tuple[bytes, Fault]) -> None:
    reply = await post(api, session, case[0], JSON)
    await check_refused(api, session, reply, case[1])


@pytest.mark.parametrize("case", of(MALFORMED_YAML))
async def test_bad_yaml(api: Api, session: str, case: tuple[bytes, Fault]) -> None:
    reply = await post(api, session, case[0], YAML)
    await check_refused(api, session, reply, case[1])


@pytest.mark.parametrize("media_type", [JSON, YAML])
@pytest.mark.parametrize("body", of(WRONG))
async def test_wrong_values(api: Api, session: str, body: Any, media_type: str) -> None:
    # JSON is YAML, too.
    reply = await post(api, session, orjson.dumps(body), media_type)
    await check_refused(api, session, reply, INVALID)


async def test_an_unknown_field_is_named(api: Api, session: str) -> None:
    reply = await post(api, session, b'{"content": "hi", "correlation_ID": "x"}', JSON)
    error = await check_refused(api, session, reply, INVALID)
    (detail,) = error["details"]
    assert detail["loc"] == ["correlation_ID"]
    assert "correlation_id" in detail["hint"]


@pytest.mark.parametrize("fields", of(WRONG_CONFIGURATIONS))
async def test_wrong_configurations(api: Api, fields: dict[str, Any]) -> None:
    name = unique("wrong")
    body = {**configuration(), "name": name, **fields}
    for path in ("/sessions/", "/agent/"):
        error = check_error(await api.http.post(path, json=body), *INVALID)
        assert error["details"]
    report = await api.http.post("/agent/validate/", json=body)
    assert report.status_code == 200
    assert report.json()["valid"] is False
    assert report.json()["errors"]
    assert report.json()["config_hash"] is None
    assert name not in (await api.http.get("/agent/")).text
    assert name not in (await api.http.get("/sessions/")).text


async def test_what_is_no_configuration_cannot_be_validated(api: Api) -> None:
    for body in (b"[]", b'"agent"', b"null", b"{}", b'{"content": "hi"}'):
        reply = await api.http.post("/agent/validate/", content=body, headers={"content-type": JSON})
        check_error(reply, *INVALID)


@pytest.mark.parametrize(
    "media_type",
    ["text/plain", "application/xml", "multipart/form-data; boundary=x", "application/jsonp", "json", ";", "x" * 500],
)
async def test_other_media_types(api: Api, session: str, media_type: str) -> None:
    await check_refused(
        api, session, await post(api, session, b'{"content": "hi"}', media_type), (415, "unsupported_media_type")
    )


async def test_no_media_type_and_another_encoding(api: Api, session: str) -> None:
    fault = (415, "unsupported_media_type")
    reply = await api.http.post(f"/runtime/{session}/execute/", content=b'{"content": "hi"}')
    await check_refused(api, session, reply, fault)
    latin = await post(api, session, b'{"content": "h\xe9"}', f"{JSON}; charset=latin-1")
    await check_refused(api, session, latin, fault)


@pytest.mark.parametrize("label", ["", "c" * 129, "a b", "a/b", "ü".encode(), "a\tb"])
async def test_bad_correlation_ids(api: Api, session: str, label: str | bytes) -> None:
    headers = {"x-correlation-id": label}
    reply = await api.http.post(f"/runtime/{session}/execute/", json={"content": "hi"}, headers=headers)
    error = await check_refused(api, session, reply, BAD)
    assert error["correlation_id"] != label
    check_error(await api.http.get("/agent/", headers=headers), *BAD)


@pytest.mark.parametrize(
    "query",
    [
        "limit=0", "limit=201", "limit=-1", "limit=ten", "limit=1.5", "limit=", "limit=%00", "limit=1e2", "offset=-1",
        "offset=x", "offset=99999999999999999999", "limit=9999999999999999999999999", "offset=%D9%A1",
    ],
)  # fmt: skip
async def test_pages_out_of_range(api: Api, session: str, query: str) -> None:
    agent = (await api.http.post("/agent/", json=configuration())).json()["id"]
    paths = ("/sessions/", f"/runtime/{session}/messages/", "/api-keys/", f"/agent/{agent}/versions/")
    for path in paths:
        error = check_error(await api.http.get(f"{path}?{query}"), *INVALID)
        assert error["details"][0]["loc"] == ["query", query.partition("=")[0]]


async def test_other_methods_and_paths(api: Api, session: str) -> None:
    for method, path, allowed in (
        ("PUT", f"/sessions/{session}/", {"GET", "DELETE"}),
        ("GET", f"/runtime/{session}/execute/", {"POST"}),
        ("DELETE", "/agent/", {"GET", "POST"}),
        ("POST", "/me/", {"GET"}),
        ("POST", "/docs/", {"GET"}),
        ("PROPFIND", "/agent/", {"GET", "POST"}),
    ):
        reply = await api.http.request(method, path)
        check_error(reply, 405, "method_not_allowed")
        assert set(reply.headers["allow"].split(", ")) == allowed
    for path in ("/", "/nothing/", "/sessions//", "/agent/x/y/z/", "/%ff/", "/api/v1/agent/"):
        check_error(await api.http.get(path), 404, "not_found_error")


async def test_a_missing_slash_leads_to_the_right_path(api: Api, session: str) -> None:
    reply = await api.http.post(f"/runtime/{session}/execute", json={"content": "hi"})
    assert reply.status_code == 308
    assert reply.headers["location"] == f"/api/v1/runtime/{session}/execute/"
    followed = await api.http.post(f"/runtime/{session}/execute", json={"content": "hi"}, follow_redirects=True)
    assert followed.status_code == 200
    listed = await api.http.get("/sessions?limit=1", follow_redirects=True)
    assert len(listed.json()["sessions"]) == 1


async def test_a_long_message(api: Api, session: str) -> None:
    text = ("ünïcödé 🦊 " * 10_000)[:100_000]
    assert len(text) == 100_000
    reply = await api.execute(session, text)
    assert reply.status_code == 200
    assert (await api.messages(session))[0]["content"] == text
    assert reply.json()["response"]["content"] == f"You said: {text}"


async def test_unusual_characters_are_kept(api: Api, session: str) -> None:
    text = "tab\t nl\n cr\r del\x7f nel\x85 ls\u2028 bom\ufeff rtl\u202e max\U0010ffff \ue000 \\u0000 \\ \" ' 🏳️‍🌈"
    assert (await api.execute(session, text)).status_code == 200
    question, answer = await api.messages(session)
    assert question["content"] == text
    assert answer["content"] == f"You said: {text}"
    streamed = [event async for event in api.events(session, text)]
    assert streamed[-1].data["response"]["content"] == f"You said: {text}"
    assert "".join(e.data["text"] for e in streamed if e.name == "turn.output_text.delta") == f"You said: {text}"


@pytest.mark.parametrize("size", [513 * 1024, 10 * 1024 * 1024])
@pytest.mark.parametrize("form", ["declared", "chunked"])
async def test_a_body_too_large_reaches_a_client_that_sends_without_waiting(
    api: Api, stack: RunningStack, session: str, form: str, size: int
) -> None:
    body = json.dumps({"content": "x" * size}).encode()
    status, answer = send_raw(stack, f"/runtime/{session}/execute/", body, chunked=form == "chunked")
    assert status == 413
    assert answer["error"]["type"] == "request_too_large"
    assert await api.messages(session) == []


async def test_a_client_that_asks_first_is_told_before_it_sends(stack: RunningStack, session: str) -> None:
    status, answer = send_raw(stack, f"/runtime/{session}/execute/", b"x" * 10_000_000, expect=True)
    assert (status, answer["error"]["type"]) == (413, "request_too_large")


async def post(api: Api, session: str, body: bytes, media_type: str) -> httpx.Response:
    return await api.http.post(f"/runtime/{session}/execute/", content=body, headers={"content-type": media_type})


def send_raw(
    stack: RunningStack, path: str, body: bytes, *, chunked: bool = False, expect: bool = False
) -> tuple[int, dict[str, Any]]:
    """Sends all of the request before it reads anything; with ``expect`` only its head."""
    place = urlsplit(stack.base_url)
    length = "transfer-encoding: chunked" if chunked else f"content-length: {len(body)}"
    head = [
        f"POST /api/v1{path} HTTP/1.1", f"host: {place.netloc}", f"x-api-key: {stack.api_key}",
        "content-type: application/json", length,
    ]  # fmt: skip
    with socket.create_connection((str(place.hostname), place.port or 80), timeout=60) as connection:
        connection.sendall("\r\n".join([*head, *(["expect: 100-continue"] if expect else []), "", ""]).encode())
        if chunked:
            for start in range(0, len(body), 65536):
                piece = body[start : start + 65536]
                connection.sendall(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
            connection.sendall(b"0\r\n\r\n")
        elif not expect:
            connection.sendall(body)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    raw_head, _, content = answer.partition(b"\r\n\r\n")
    document: dict[str, Any] = json.loads(content)
    return int(raw_head.split()[1]), document
