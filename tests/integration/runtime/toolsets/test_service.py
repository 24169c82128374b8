"""Toolsets through the runtime as it is wired: discovered and tried as the registry asks for it."""

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import time
from typing import Any

import httpx
from aiohttp import web
from pydantic import SecretStr

from libs.contracts.resources.secrets import secret_context
from libs.secrets import SecretCipher
from services.runtime.bootstrap import build
from services.runtime.settings import RuntimeSettings
from tests.integration.runtime.toolsets.mcp_processes import mcp_server
from tests.support.runtime_nodes import SIGNING_KEY, person
from tests.support.webhook_receiver import receiving

KEY = b"k" * 32
Post = Callable[[str, dict[str, Any]], Awaitable[httpx.Response]]


def secrets() -> dict[str, str]:
    context = secret_context(person().company_id, "KEY")
    return {"KEY": base64.b64encode(SecretCipher([KEY]).encrypt("opened", context=context)).decode()}


@asynccontextmanager
async def runtime(networks: str) -> AsyncIterator[Post]:
    settings = RuntimeSettings(
        signing_key=SecretStr(SIGNING_KEY),
        database_url=SecretStr("postgresql://unused"),
        outbound_networks=networks,
        secrets_key=SecretStr(base64.b64encode(KEY).decode()),
    )
    service = build(settings)
    token = service.signer.sign(person(), expires_at=time() + 300)
    transport = httpx.ASGITransport(app=service.http, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://runtime", timeout=60) as http:

        async def post(path: str, body: dict[str, Any]) -> httpx.Response:
            return await http.post(
                f"/internal/toolsets/{path}", json=body, headers={"Authorization": f"Bearer {token}"}
            )

        yield post
    for hook in service.lifecycle._on_stop:
        await hook()


async def discover_and_call(post: Post, toolset: dict[str, Any], tool: str, arguments: dict[str, Any]) -> str:
    found = await post("discover", toolset)
    assert found.status_code == 200, found.text
    toolset = {**toolset, "tools": found.json()["tools"]}
    tried = await post("call", {"toolset": toolset, "tool": tool, "arguments": arguments, "call_id": "try"})
    assert tried.json()["status"] == "completed", tried.text
    return str(tried.json()["output"])


def toolset(kind: str, **config: Any) -> dict[str, Any]:
    return {"name": "office", "version": 1, "type": kind, "config": config, "secrets": secrets()}


OPERATION = {"operationId": "show_key", "parameters": [{"name": "n", "in": "query", "schema": {"type": "integer"}}]}
DOCUMENT = {"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/key": {"get": OPERATION}}}
HEADERS = {"X-Key": "${secret:KEY}"}


async def test_toolsets_are_discovered_and_tried_and_their_secrets_masked(tmp_path: Path) -> None:
    with mcp_server(tmp_path) as server:
        async with receiving() as target, runtime("127.0.0.0/8") as post:
            target.answer = lambda _: web.json_response({"key": target.received[-1][1]["x-key"]})
            openapi = toolset("openapi", document=DOCUMENT, base_url=target.url(""), headers=HEADERS)
            mcp = toolset("mcp", url=server.url, headers=HEADERS, allowed_tools=["header"])

            assert await discover_and_call(post, openapi, "show_key", {"n": 1}) == '{"key": "[secret]"}'
            assert target.received[-1][1]["x-key"] == "opened"
            assert await discover_and_call(post, mcp, "header", {"name": "X-Key"}) == "[secret]"


async def test_private_addresses_are_refused_unless_they_are_listed() -> None:
    async with receiving() as target, runtime("") as post:
        for refused in (
            toolset("mcp", url=target.url("/mcp")),
            toolset("openapi", document_url=target.url("/openapi.json")),
        ):
            answer = await post("discover", refused)
            assert answer.status_code == 422
            assert "isn't public" in answer.text
        assert target.received == []
