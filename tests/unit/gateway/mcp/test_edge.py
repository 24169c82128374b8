"""Requests that ``/mcp`` refuses before the SDK sees them, and the tools that scopes show."""

import asyncio
import logging
from typing import Any

import httpx
import orjson
import pytest

from libs.contracts.resources.turns import ExecuteTurn
from services.gateway.entrypoints.mcp.reading import ask_name
from tests.support.mcp_client import mcp_client, text_of
from tests.support.turn_events import started
from tests.support.waiting import WITHIN
from tests.unit.gateway.mcp.conftest import Served

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"Accept": "application/json, text/event-stream"}


async def post(served: Served, body: Any, **headers: str) -> httpx.Response:
    sent = {**ACCEPT, "Authorization": f"Bearer {served.key}", "Content-Type": "application/json", **headers}
    content = body if isinstance(body, bytes) else orjson.dumps(body)
    async with httpx.AsyncClient(timeout=WITHIN, trust_env=False) as client:
        return await client.post(f"{served.url}/mcp", content=content, headers=sent)


async def test_a_connection_begins_with_an_id_of_its_own(served: Served) -> None:
    first, second = [await post(served, INITIALIZE) for _ in range(2)]
    assert first.status_code == 200
    assert first.headers["mcp-session-id"] != second.headers["mcp-session-id"]
    assert first.headers["x-correlation-id"]
    went_on = await post(served, {"jsonrpc": "2.0", "id": 8, "method": "ping"}, **{"mcp-session-id": "any"})
    assert "mcp-session-id" not in went_on.headers


@pytest.mark.parametrize(
    ("headers", "body", "status", "kind"),
    [
        ({"Authorization": "Bearer aes_" + "x" * 43}, INITIALIZE, 401, "authentication_error"),
        ({"Origin": "https://evil.example"}, INITIALIZE, 403, "permission_error"),
        ({"mcp-session-id": "x" * 201}, INITIALIZE, 400, "invalid_request_error"),
        ({}, b" " * 600_000, 413, "request_too_large"),
    ],
)
async def test_refusals_are_json_rpc_errors(
    served: Served, headers: dict[str, str], body: Any, status: int, kind: str
) -> None:
    answer = await post(served, body, **headers)
    assert answer.status_code == status, answer.text
    refusal = answer.json()
    assert (refusal["jsonrpc"], refusal["error"]["data"]["type"]) == ("2.0", kind)
    if status == 401:
        assert "Bearer" in answer.headers["www-authenticate"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_is_no_stream_and_no_session_to_end(served: Served, method: str) -> None:
    async with httpx.AsyncClient(timeout=WITHIN, trust_env=False) as client:
        answer = await client.request(method, f"{served.url}/mcp", headers={"x-api-key": served.key})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"jsonrpc": "2.0"}', b"7", b'{"jsonrpc":"2.0","id":1,"method":"\\u0000"}', b"[" * 9000]
)
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28", "1999-01-01"])
async def test_what_is_no_message_is_refused(served: Served, body: bytes, version: str) -> None:
    answer = await post(served, body, **{"mcp-protocol-version": version})
    assert answer.status_code < 500, answer.text


async def test_a_credential_sees_the_tools_that_it_has_the_scopes_for(served: Served) -> None:
    secret, _ = served.public.keys.issue(scopes=frozenset({"knowledge:read", "sessions:read"}))
    async with mcp_client(served.url, secret) as client:
        tools = (await client.list_tools()).tools
        refused = await client.call_tool("ask_support", {"message": "Hello"})
    assert [tool.name for tool in tools] == ["list_knowledge_bases", "search_knowledge", "read_session"]
    assert all(tool.annotations is not None and tool.annotations.read_only_hint for tool in tools)
    assert refused.is_error is True
    assert "sessions:write" in text_of(refused)


async def test_a_revoked_key_ends_what_is_under_way(served: Served) -> None:
    served.turns(lambda sent: [started(sent)])
    async with mcp_client(served.url, served.key) as client:
        asking = asyncio.create_task(client.call_tool("ask_support", {"message": "Hello"}))
        await served.until_sent(ExecuteTurn)
        served.public.api.credentials.revoked(served.public.key.id)
        with pytest.raises(Exception, match="revoked"):
            await asking


async def test_an_unexpected_failure_is_logged_and_tells_nothing(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.answers("/internal/knowledge-bases", {"nonsense": 1}, upstream="ingestion")
    with caplog.at_level(logging.ERROR):
        async with mcp_client(served.url, served.key) as client:
            result = await client.call_tool("list_knowledge_bases", {})
    assert result.is_error is True
    assert text_of(result) == "internal_error: Internal error."


def test_names_of_tools_fit_every_model_and_stay_apart() -> None:
    assert ask_name("support-dvk9q3") == "ask_support-dvk9q3"
    long = [ask_name("a" * 100 + end) for end in ("b", "c")]
    assert len(set(long)) == 2
    assert all(len(name) == 64 for name in long)
