"""A registry beside a runtime that answers what a test tells it to."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from libs.contracts.resources.toolsets import ConnectedToolset, TryToolCall
from tests.integration.registry.conftest import Registry, registry_on

Answer = tuple[int, dict[str, Any]]


def offers(*names: str, **settings: Any) -> Answer:
    """The answer to discovery of a target with these tools."""
    return 200, {"tools": [{"name": name, "description": f"Does {name}.", **settings} for name in names]}


@dataclass
class FakeRuntime:
    discovery: Callable[[ConnectedToolset], Answer] = lambda _: offers("find", "refund")
    asked: list[ConnectedToolset] = field(default_factory=list)
    called: list[TryToolCall] = field(default_factory=list)
    answering: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.answering.set()

    async def discover(self, request: web.Request) -> web.Response:
        toolset = ConnectedToolset.model_validate_json(await request.read())
        self.asked.append(toolset)
        await self.answering.wait()
        status, body = self.discovery(toolset)
        return web.Response(body=orjson.dumps(body), status=status, content_type="application/json")

    async def call(self, request: web.Request) -> web.Response:
        self.called.append(TryToolCall.model_validate_json(await request.read()))
        return web.json_response({"status": "completed", "output": "42", "seconds": 0.1})

    async def tools(self, _: web.Request) -> web.Response:
        tool = {"name": "calculator", "description": "Calculates.", "parameters": {}, "safe_to_repeat": True}
        return web.json_response({"tools": [tool], "total": 1, "has_more": False})

    async def models(self, _: web.Request) -> web.Response:
        builtin = {"provider": "builtin", "configured": True, "models": [{"name": "builtin:extractive"}]}
        return web.json_response({"providers": [{**builtin, "any_name": False}], "models": []})


@dataclass
class World:
    registry: Registry
    runtime: FakeRuntime


@asynccontextmanager
async def toolset_world(database_url: str) -> AsyncIterator[World]:
    runtime = FakeRuntime()
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.router.add_post("/internal/toolsets/discover", runtime.discover)
    app.router.add_post("/internal/toolsets/call", runtime.call)
    app.router.add_get("/internal/tools", runtime.tools)
    app.router.add_get("/internal/models", runtime.models)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    _, port = runner.addresses[0][:2]
    try:
        async with registry_on(database_url, runtime_url=f"http://127.0.0.1:{port}") as registry:
            yield World(registry, runtime)
    finally:
        await runner.cleanup()
