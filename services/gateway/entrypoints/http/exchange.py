"""Sending the answer to one request."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from libs.contracts.errors import ServiceError
from services.gateway.entrypoints.http.errors import error_reply
from services.gateway.entrypoints.http.event_streams import EventStreams, render_event
from services.gateway.entrypoints.http.messages import Headers, Reply, Request, Stream

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_STREAM_HEADERS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
_LABEL: Final = b"x-correlation-id"


class Exchange:
    """``status`` is what was answered, 0 before that."""

    def __init__(self, send: Send, request: Request) -> None:
        self.status = 0
        self._send = send
        self._request = request

    async def reply(self, reply: Reply) -> None:
        headers: Headers = [(_LABEL, self._request.label.encode()), *reply.headers]
        if reply.status != 204:
            headers.append((b"content-type", reply.media_type))
            headers.append((b"content-length", str(len(reply.body)).encode()))
        await self._start(reply.status, headers)
        await self._send({"type": "http.response.body", "body": reply.body})

    async def fail(self, problem: ServiceError) -> None:
        """Answer with a problem; as an event when a stream has begun, whose status cannot be changed any more."""
        reply = error_reply(problem, self._request.label)
        if self.status == 0:
            await self.reply(reply)
        else:
            await self._send({"type": "http.response.body", "body": render_event("error", reply.body)})

    async def stream(self, stream: Stream, streams: EventStreams) -> None:
        """Send a stream to its end. What is raised before its first piece can still be answered with ``fail``."""
        chunks = stream.chunks
        try:
            piece = await anext(chunks)
            with streams.opened(self._request.principal.identity.key_id):
                await self._start(200, [(_LABEL, self._request.label.encode()), *_STREAM_HEADERS])
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                async for piece in chunks:
                    await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except asyncio.CancelledError:
            if not streams.was_ended():
                raise
        finally:
            await chunks.aclose()
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, headers: Headers) -> None:
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
