"""Bad requests: the documented status and error, never a 500, and nothing half-done."""

import json
import socket
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest

from tests.e2e.api import Api, check_error, configuration, unique
from tests.e2e.running_stack import RunningStack
from tests.support.bad_bodies import (
    BAD,
    INVALID,
    JSON,
    MALFORMED_JSON,
    MALFORMED_YAML,
    UNKNOWN_ARTIFACTS,
    WRONG,
    WRONG_IMAGES,
    YAML,
    Fault,
)


@pytest.fixture
async def session(api: Api) -> str:
    return await api.session("openai:stub-echo")


# One of each class of fault; the others stay in the gateway's unit tests.
FAULTS: dict[str, tuple[str, bytes, Fault]] = {
    "bytes": (JSON, MALFORMED_JSON["invalid UTF-8"][0], BAD),
    "aliases": (YAML, MALFORMED_YAML["an alias bomb"][0], BAD),
    "a field": (JSON, orjson.dumps(WRONG["an unknown field"]), INVALID),
    "a media type": ("text/plain", b'{"content": "hi"}', (415, "unsupported_media_type")),
    **{name: (JSON, orjson.dumps(body), INVALID) for name, body in WRONG_IMAGES.items()},
    **{name: (JSON, orjson.dumps(body), (404, "not_found_error")) for name, body in UNKNOWN_ARTIFACTS.items()},
}


@pytest.mark.parametrize(("media_type", "content", "fault"), FAULTS.values(), ids=FAULTS)
async def test_a_bad_message_is_not_kept(api: Api, session: str, media_type: str, content: bytes, fault: Fault) -> None:
    headers = {"content-type": media_type}
    check_error(await api.http.post(f"/runtime/{session}/execute/", content=content, headers=headers), *fault)
    assert await api.messages(session) == []


# One that the form refuses, and one that the catalogues do; the others stay in the registry's unit tests.
@pytest.mark.parametrize("fields", [{"prompt": "x"}, {"llm_config": {"model": "nobody:stub"}}])
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


@pytest.mark.parametrize("form", ["declared", "chunked"])
async def test_a_body_too_large_reaches_a_client_that_sends_without_waiting(
    api: Api, stack: RunningStack, session: str, form: str
) -> None:
    body = json.dumps({"content": "x" * 10 * 1024 * 1024}).encode()
    status, answer = send_raw(stack, f"/runtime/{session}/execute/", body, chunked=form == "chunked")
    assert status == 413
    assert answer["error"]["type"] == "request_too_large"
    assert await api.messages(session) == []


async def test_a_client_that_asks_first_is_told_before_it_sends(stack: RunningStack, session: str) -> None:
    status, answer = send_raw(stack, f"/runtime/{session}/execute/", b"x" * 10_000_000, expect=True)
    assert (status, answer["error"]["type"]) == (413, "request_too_large")


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
