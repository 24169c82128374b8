"""Sending the answer to one request."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from libs.contracts.errors import ServiceError, ServiceUnavailable
from libs.service_defaults.upstream_answers import refusal
from services.gateway.entrypoints.http.errors import error_reply
from services.gateway.entrypoints.http.event_streams import EventStreams, render_event
from services.gateway.entrypoints.http.messages import Headers, Passage, Reply, Request, Stream

Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_STREAM_HEADERS: Final = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
_CORRELATION_ID: Final = b"x-correlation-id"
# Also where there was no origin: a cache must not give that answer to a page, which could not read it.
_VARY: Final = (b"vary", b"Origin")
_PASSED_ON: Final = (
    "Accept-Ranges", "Cache-Control", "Content-Disposition", "Content-Length", "Content-Range",
    "Content-Security-Policy", "Content-Type", "ETag", "X-Content-Type-Options",
)  # fmt: skip
_NOT_AN_ERROR: Final = (416,)


class AnswerBroken(Exception):
    """The answer cannot be sent to its end."""


class Exchange:
    """``status`` is what was answered, 0 before that. ``sharing`` lets a page of another origin read the answer.

    ``patience``: seconds that the caller may take for one piece of a download.
    """

    def __init__(self, send: Send, request: Request, *, patience: float = 60.0) -> None:
        self.status = 0
        self.patience = patience
        self.sharing: Headers = []
        self._send = send
        self._request = request

    async def reply(self, reply: Reply) -> None:
        headers: Headers = [(_CORRELATION_ID, self._request.recorded_correlation_id.encode()), *reply.headers]
        if reply.status != 204:
            headers.append((b"content-type", reply.media_type))
            headers.append((b"content-length", str(len(reply.body)).encode()))
        await self._start(reply.status, headers)
        await self._send({"type": "http.response.body", "body": reply.body})

    async def fail(self, problem: ServiceError) -> None:
        """Answer with a problem; as an event when a stream has begun, whose status cannot be changed any more."""
        reply = error_reply(problem, self._request.recorded_correlation_id)
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
                await self._start(
                    200, [(_CORRELATION_ID, self._request.recorded_correlation_id.encode()), *_STREAM_HEADERS]
                )
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
                async for piece in chunks:
                    await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        except asyncio.CancelledError:
            if not streams.was_ended():
                raise
        finally:
            await chunks.aclose()
        await self._send({"type": "http.response.body", "body": b""})

    async def pass_on(self, passage: Passage) -> None:
        """Send an upstream's answer as it comes in. A refusal of the upstream's is raised."""
        async with passage.opening as answer:
            if answer.status >= 400 and answer.status not in _NOT_AN_ERROR:
                body = b"".join([piece async for piece in answer.pieces])
                raise refusal(answer.status, body, judges_caller=passage.judges_caller)
            headers: Headers = [(_CORRELATION_ID, self._request.recorded_correlation_id.encode())]
            headers += [
                (name.lower().encode(), answer.headers[name].encode("latin-1"))
                for name in _PASSED_ON
                if name in answer.headers
            ]
            await self._start(answer.status, headers)
            try:
                async for piece in answer.pieces:
                    # A caller who does not take what is sent would keep the upstream's connection.
                    async with asyncio.timeout(self.patience):
                        await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            except (ServiceUnavailable, TimeoutError) as problem:
                # Only a connection that ends too early can tell the caller now.
                raise AnswerBroken from problem
        await self._send({"type": "http.response.body", "body": b""})

    async def _start(self, status: int, headers: Headers) -> None:
        self.status = status
        headers += self.sharing
        headers.append(_VARY)
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
