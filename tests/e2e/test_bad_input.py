"""Bad requests: the documented status and error, never a 500, and nothing half-done."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import orjson
import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.bad_bodies import (
    BAD,
    INVALID,
    JSON,
    MALFORMED_JSON,
    MALFORMED_YAML,
    UNKNOWN_ARTIFACTS,
    WRONG,
    WRONG_CONFIGURATIONS,
    YAML,
    Fault,
)
from tests.e2e.running_stack import RunningStack


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


@pytest.mark.parametrize("body", of(UNKNOWN_ARTIFACTS))
async def test_files_that_the_session_does_not_have(api: Api, session: str, body: Any) -> None:
    reply = await post(api, session, orjson.dumps(body), JSON)
    await check_refused(api, session, reply, (404, "not_found_error"))


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
    lists = ("/sessions/", "/api-keys/", "/models/", "/tools/")
    for path in (*lists, f"/runtime/{session}/messages/", f"/agent/{agent}/versions/"):
        error = check_error(await api.http.get(f"{path}?{query}"), *INVALID)
        assert error["details"][0]["loc"] == ["query", query.partition("=")[0]]


async def test_other_methods_and_paths(api: Api, session: str) -> None:
    for method, path, allowed in (
        ("PUT", f"/sessions/{session}/", {"GET", "HEAD", "DELETE"}),
        ("GET", f"/runtime/{session}/execute/", {"POST"}),
        ("DELETE", "/agent/", {"GET", "HEAD", "POST"}),
        ("POST", "/me/", {"GET", "HEAD"}),
        ("POST", "/docs/", {"GET", "HEAD"}),
        ("PROPFIND", "/agent/", {"GET", "HEAD", "POST"}),
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
    deltas = [event.data["text"] for event in streamed if event.name == "turn.output_text.delta"]
    assert "".join(deltas) == f"You said: {text}"


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
