"""OpenAPI toolsets: documents compiled in real processes, and their operations called."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from libs.contracts.resources.secrets import secret_context
from libs.outbound import GuardedResolver, is_public
from libs.secrets import SecretCipher
from services.runtime.adapters.tools.toolsets.http_target import HttpTarget
from services.runtime.adapters.tools.toolsets.openapi import connector as openapi_connector
from services.runtime.adapters.tools.toolsets.openapi.connector import OpenApiConnector
from services.runtime.adapters.tools.toolsets.secrets import ToolsetSecrets
from services.runtime.domain.tools import ToolContext
from services.runtime.domain.toolsets import Toolset, ToolsetUnusable, connected_tools
from tests.support.agent_fakes import CALLER
from tests.support.webhook_receiver import receiving

CIPHER = SecretCipher([b"k" * 32])
SECRETS = {"KEY": base64.b64encode(CIPHER.encrypt("opened", context=secret_context("company", "KEY"))).decode()}


@asynccontextmanager
async def connector(resolver: GuardedResolver | None = None) -> AsyncIterator[OpenApiConnector]:
    resolver = resolver or GuardedResolver(lambda _: True)
    target = HttpTarget(resolver, ToolsetSecrets(CIPHER))
    try:
        yield OpenApiConnector(target, resolver)
    finally:
        await target.close()


def toolset(**config: Any) -> Toolset:
    return Toolset("company", "office", 1, "openapi", config, (), SECRETS)


def document(operations: int = 1, fields: int = 1) -> dict[str, Any]:
    properties = {"seats": {"type": "integer"}, **{f"note{n}": {"type": "string"} for n in range(fields)}}
    body = {"type": "object", "required": ["seats"], "properties": properties}
    book = {
        "summary": "Books seats.",
        "parameters": [{"name": "show", "in": "path", "required": True, "schema": {"type": "string"}}],
        "requestBody": {"content": {"application/json": {"schema": body}}, "required": True},
        "responses": {"200": {"description": "x" * 400}},
    }
    paths = {f"/shows{n}/{{show}}": {"post": {"operationId": f"book{n}", **book}} for n in range(operations)}
    info = {"title": "office", "version": "1"}
    return {"openapi": "3.1.0", "info": info, "servers": [{"url": "/v1"}], "paths": paths}


async def unusable(made: OpenApiConnector, **config: Any) -> str:
    with pytest.raises(ToolsetUnusable) as refused:
        await made.discover(toolset(**config))
    return refused.value.message


async def test_a_fetched_document_is_compiled_and_its_operation_called() -> None:
    async with receiving() as target, connector() as made:
        target.answer = lambda path: web.json_response(document() if path == "/openapi.json" else {"booked": path})
        described = toolset(document_url=target.url("/openapi.json"), headers={"X-Key": "${secret:KEY}"})
        found = (await made.discover(described)).tools
        ready = Toolset("company", "office", 1, "openapi", described.config, tuple(found), SECRETS)
        [tool] = connected_tools(made, ready)

        output = await tool.call({"show": "a b", "seats": 2}, ToolContext("call", "turn", "session", CALLER))

        assert tool.definition.name == "office.book0"
        assert json.loads(output.text) == {"booked": "/v1/shows0/a b"}
        [(_, asked, _), (_, headers, sent)] = target.received
        assert "x-key" not in asked
        assert (headers["x-key"], headers["idempotency-key"]) == ("opened", "turn.call")
        assert json.loads(sent) == {"seats": 2}


async def test_chosen_operations_of_a_document_of_two_megabytes() -> None:
    large = document(operations=500, fields=100)
    assert 1_800_000 < len(json.dumps(large)) < 2_500_000
    async with connector() as made:
        found = await made.discover(
            toolset(document=large, base_url="https://office.example", operations=["book7", "POST /shows499/{show}"])
        )

    assert [tool.name for tool in found.tools] == ["book7", "book499"]


async def test_hostile_documents_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with connector() as made:
        assert "isn't valid YAML" in await unusable(made, document="openapi: [")
        # Reading this one takes a core as long as it may.
        monkeypatch.setattr(openapi_connector, "_COMPILE_SECONDS", 1.0)
        assert "OpenAPI document" in await unusable(made, document="[" * 100_000)


async def test_a_document_is_fetched_in_its_encoding() -> None:
    body = json.dumps({**document(), "servers": [{"url": "https://o.example"}]}).encode("utf-16")
    async with receiving() as target, connector() as made:
        target.answer = lambda _: web.Response(body=body, content_type="application/json")
        found = await made.discover(toolset(document_url=target.url("/openapi.json")))
        assert [tool.name for tool in found.tools] == ["book0"]


async def test_documents_that_cannot_be_fetched() -> None:
    bodies = {"/large": b"x" * 2_100_000, "/bytes": b"\x89PNG\xff"}
    async with receiving() as target, connector() as made:
        target.answer = lambda path: web.Response(body=bodies.get(path), status=200 if path in bodies else 404)
        for path, said in (("/large", "larger than"), ("/bytes", "isn't text"), ("/none", "status 404")):
            assert said in await unusable(made, document_url=target.url(path))
        before = len(target.received)
        async with connector(GuardedResolver(is_public)) as guarded:
            assert "isn't public" in await unusable(guarded, document_url=target.url("/large"))
        assert len(target.received) == before
