"""A server on 127.0.0.1 that takes webhooks, and answers, hangs or redirects as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from standardwebhooks import Webhook as Verifier

from tests.support.waiting import WITHIN, until


@dataclass
class Receiver:
    port: int = 0
    received: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    """Path, headers and body of every request."""
    answer: Callable[[str], web.StreamResponse] = lambda _: web.Response(text="thanks")
    hanging: set[str] = field(default_factory=set)

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    def ids(self, path: str = "/hook") -> list[str]:
        return [headers["webhook-id"] for at, headers, _ in self.received if at == path]

    def verified(self, secret: str, path: str = "/hook") -> list[dict[str, Any]]:
        """The bodies, after each signature and timestamp was found to be right."""
        taken = [(headers, body) for at, headers, body in self.received if at == path]
        return [Verifier(secret).verify(body, headers) for headers, body in taken]

    async def until(self, count: int, path: str = "/hook", seconds: float = WITHIN) -> None:
        await until(lambda: len(self.ids(path)) >= count, f"{count} webhooks came", within=seconds)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append((request.path, headers, await request.read()))
        if request.path in self.hanging:
            await asyncio.Event().wait()
        return self.answer(request.path)


@asynccontextmanager
async def receiving() -> AsyncIterator[Receiver]:
    receiver = Receiver()
    runner = web.ServerRunner(web.Server(receiver.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.port = runner.addresses[0][1]
    try:
        yield receiver
    finally:
        await runner.cleanup()
