"""Bodies and callers that the protocols refuse, each in its own shape and none with a 5xx, and what isn't found."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import httpx
import orjson
import pytest

from libs.contracts.identifiers import new_id
from tests.support.bad_bodies import MALFORMED_JSON
from tests.support.gateway import Gateway
from tests.unit.gateway.test_protocols import AGENT

Shape = Callable[[int, Any], None]
_ID = new_id()


class Door(NamedTuple):
    """``limit`` of its bodies, in bytes."""

    path: str
    shape: Shape
    limit: int = 512 * 1024


def _openai(status: int, body: Any) -> None:
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert (status, body["error"]["type"]) in {
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (413, "invalid_request_error"),
        (415, "invalid_request_error"),
    }


def _json_rpc(status: int, body: Any) -> None:
    """Refusals of a method come with status 200."""
    assert body["jsonrpc"] == "2.0"
    assert -32799 < body["error"]["code"] <= -32000
    assert status in (200, 400, 401, 403, 413, 415, 422)


def _google(status: int, body: Any) -> None:
    """Refusals before the binding is known have the form of both."""
    assert body["error"]["code"] in (status, -32600)
    assert body["error"]["message"]
    assert body["error"]["details"]


def _native(status: int, body: Any) -> None:
    assert status in (400, 401, 403, 413, 415, 422)
    assert body["error"]["type"] in {
        "authentication_error",
        "permission_error",
        "invalid_request_error",
        "validation_error",
        "request_too_large",
        "unsupported_media_type",
    }


_MEGABYTE = 1024 * 1024
DOORS: Mapping[str, Door] = {
    "chat": Door("/openai/v1/chat/completions", _openai, _MEGABYTE),
    "responses": Door("/openai/v1/responses", _openai),
    "conversations": Door(f"/openai/v1/conversations/conv_{_ID}", _openai),
    "items": Door(f"/openai/v1/conversations/conv_{_ID}/items", _openai),
    "vector stores": Door("/openai/v1/vector_stores", _openai),
    "search": Door(f"/openai/v1/vector_stores/{_ID}/search", _openai),
    "mcp": Door("/mcp", _json_rpc),
    "json-rpc": Door("/a2a/support", _json_rpc),
    "http+json": Door("/a2a/support/message:send", _google),
    "ag-ui": Door("/ag-ui/support", _native, 4 * _MEGABYTE),
}
SIZES = {"one byte more": 1, "ten times": 9}
OTHER_TYPES = ("", "text/plain", "application/json; charset=latin-1", "application/x-www-form-urlencoded")


async def post(
    public: Gateway, door: Door, content: Any, content_type: str = "application/json", secret: str | None = None
) -> httpx.Response:
    public.upstreams.answers["GET", "registry", "/internal/agents/by-key/support"] = (200, AGENT)
    headers = {"Content-Type": content_type, "Accept": "application/json, text/event-stream", "A2A-Version": "1.0"}
    headers |= {"Authorization": f"Bearer {secret}"} if secret else {}
    async with public.protocol(door.path) as client:
        return await client.post(door.path, content=content, headers=headers)


@pytest.mark.parametrize("door", DOORS)
async def test_what_is_no_body_is_refused_in_the_protocols_own_shape(public: Gateway, door: str) -> None:
    # Every field of a vector store may be left out, and so may its body.
    taken = ("empty", "no fields") if door == "vector stores" else ()
    for fault, (content, _) in MALFORMED_JSON.items():
        if fault not in taken:
            response = await post(public, DOORS[door], content)
            DOORS[door].shape(response.status_code, response.json())
    assert not public.bus.sent


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("door", DOORS)
async def test_bodies_have_a_limit_however_they_are_sent(public: Gateway, door: str, size: str) -> None:
    wanted = DOORS[door]
    body = b'{"a": "' + b"x" * (wanted.limit * SIZES[size] if SIZES[size] > 1 else wanted.limit) + b'"}'

    async def pieces() -> Any:
        for offset in range(0, len(body), 65_536):
            yield body[offset : offset + 65_536]

    for content in (body, pieces()):
        response = await post(public, wanted, content)
        assert response.status_code == 413
        wanted.shape(response.status_code, response.json())
        assert response.headers["connection"] == "close"


@pytest.mark.parametrize("door", [name for name in DOORS if name not in ("json-rpc", "http+json", "mcp")])
async def test_other_types_of_bodies_are_refused(public: Gateway, door: str) -> None:
    """A2A takes JSON by any name; of MCP the SDK decides."""
    for content_type in OTHER_TYPES:
        response = await post(public, DOORS[door], orjson.dumps({"model": "support"}), content_type)
        assert 400 <= response.status_code < 500, content_type
        DOORS[door].shape(response.status_code, response.json())
    assert not public.bus.sent


@pytest.mark.parametrize("door", DOORS)
async def test_a_caller_without_a_key_or_its_scope_is_refused(public: Gateway, door: str) -> None:
    """MCP shows a caller the tools that its key may call; methods of A2A have scopes of their own."""
    message = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": message}
    body = orjson.dumps({"json-rpc": call, "http+json": message}.get(door, {"model": "support"}))
    bare, _ = public.keys.issue(scopes=frozenset({"usage:read"}))
    refused = {401: "aes_" + "x" * 43} | ({} if door == "mcp" else {403: bare})
    for status, secret in refused.items():
        response = await post(public, DOORS[door], body, secret=secret)
        assert response.status_code == status
        DOORS[door].shape(status, response.json())
    assert not public.bus.sent


SAID = {"role": "user", "content": "Hi"}
MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "Hi"}]}
RESPONSE, CONVERSATION = f"/openai/v1/responses/resp_{_ID}", f"/openai/v1/conversations/conv_{_ID}"
STORE = f"/openai/v1/vector_stores/{_ID}"
OF_OTHERS: list[tuple[str, str, Any]] = [
    ("POST", "/openai/v1/chat/completions", {"model": "theirs", "messages": [SAID]}),
    ("POST", "/openai/v1/responses", {"model": "theirs", "input": "Hi"}),
    ("POST", "/openai/v1/responses", {"model": "support", "input": "Hi", "previous_response_id": f"resp_{_ID}"}),
    ("GET", RESPONSE, None),
    ("GET", f"{RESPONSE}?stream=true", None),
    ("GET", f"{RESPONSE}/input_items", None),
    ("POST", f"{RESPONSE}/cancel", None),
    ("DELETE", RESPONSE, None),
    ("GET", "/openai/v1/responses/chatcmpl_1", None),
    ("GET", CONVERSATION, None),
    ("GET", f"{CONVERSATION}/items", None),
    ("GET", f"/openai/v1/files/{_ID}", None),
    ("GET", f"/openai/v1/files/{_ID}/content", None),
    ("GET", STORE, None),
    ("GET", f"{STORE}/files", None),
    ("POST", f"{STORE}/search", {"query": "Hi"}),
    ("GET", f"/a2a/support/tasks/{_ID}", None),
    ("GET", f"/a2a/support/tasks/{_ID}:subscribe", None),
    ("POST", f"/a2a/support/tasks/{_ID}:cancel", None),
    ("POST", "/a2a/theirs/message:send", {"message": MESSAGE}),
    ("POST", "/ag-ui/theirs", {"threadId": "t", "runId": "r", "messages": [{"id": "1", **SAID}]}),
]


async def test_what_upstreams_do_not_show_to_a_caller_is_not_found(public: Gateway) -> None:
    """They're asked in the caller's name; that they show each caller its own alone: e2e/test_every_operation.py."""
    public.upstreams.answers["GET", "registry", "/internal/agents/by-key/support"] = (200, AGENT)
    for method, path, body in OF_OTHERS:
        public.upstreams.asked_as.clear()
        async with public.protocol(path) as client:
            reply = await client.request(method, path, json=body, headers={"A2A-Version": "1.0"})
        assert reply.status_code == 404, (method, path, reply.text)
        asked_as = {(each.company_id, each.user_id, each.key_id) for each in public.upstreams.asked_as}
        assert asked_as <= {(public.key.company_id, public.key.user_id, public.key.id)}
        assert asked_as or path.endswith("chatcmpl_1")
    assert not public.bus.sent
