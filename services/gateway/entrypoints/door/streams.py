"""Formats server-sent events, and ends open streams when their key is revoked."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager
from datetime import datetime
from typing import Final, TypeVar

from fastapi import Request
from prometheus_client import Gauge
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from libs.contracts.errors import AuthenticationFailed
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.metrics import OPEN_STREAMS
from services.gateway.use_cases.stream_slots import StreamSlots

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE: Final = b": keep-alive\n\n"
_HEADERS: Final = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
_MAX_REVOKED: Final = 10_000
_PIECE_BYTES: Final = 256 * 1024
T = TypeVar("T")


class KeyRevoked(AuthenticationFailed):
    def __init__(self) -> None:
        super().__init__("The API key has been revoked. Use another key.")


def held_by(request: Request) -> AsyncExitStack:
    """Returns the request's exit stack, which closes when the request ends."""
    held: AsyncExitStack = request.state.held
    return held


def render_event(name: str, data: bytes, *, event_id: str | None = None) -> bytes:
    """Renders a server-sent event."""
    lines = b"\ndata: ".join(data.splitlines()) if b"\n" in data or b"\r" in data else data
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return head + b"event: " + name.encode() + b"\ndata: " + lines + b"\n\n"


async def rendered(events: AsyncGenerator[T | None, None], form: Callable[[T], bytes]) -> AsyncGenerator[bytes, None]:
    """Renders events with the given function. ``None`` becomes a keep-alive."""
    async with aclosing(events):
        async for event in events:
            if piece := KEEP_ALIVE if event is None else form(event):
                yield piece


def in_pieces(events: Iterable[bytes]) -> Iterator[bytes]:
    """Joins events into chunks of at most 256 KiB. A larger event becomes a separate chunk."""
    piece: list[bytes] = []
    size = 0
    for event in events:
        if piece and size + len(event) > _PIECE_BYTES:
            yield b"".join(piece)
            piece, size = [], 0
        piece.append(event)
        size += len(event)
    if piece:
        yield b"".join(piece)


class EventStreams:
    """Tracks open event streams by the key with which they were opened."""

    def __init__(self, now: Callable[[], datetime], slots: StreamSlots) -> None:
        self._now = now
        self._slots = slots
        self._open: defaultdict[str, set[asyncio.Task[object]]] = defaultdict(set)
        self._ended: set[asyncio.Task[object]] = set()
        self._revoked: OrderedDict[str, None] = OrderedDict()

    async def respond(
        self,
        request: Request,
        events: AsyncGenerator[bytes, None],
        caller: Principal,
        headers: Mapping[str, str] | None = None,
    ) -> Response:
        """Returns a response that streams the events.

        Waits for the first event, so that an earlier failure can set the status. Without any event, the status is 204,
        which tells browsers not to reconnect. Raises ``KeyRevoked`` and ``RateLimited`` like ``check`` and
        ``hold_slot``.
        """
        held = held_by(request)
        held.push_async_callback(events.aclose)
        await held.enter_async_context(self.hold_slot(caller))
        first = await anext(events, None)
        # Checks the key again, since a turn's first event may have taken seconds.
        self.check(caller.identity.key_id)
        if first is None:
            return Response(status_code=204)
        return EventStreamResponse(first, events, self, caller, headers or {})

    def hold_slot(self, caller: Principal) -> AbstractAsyncContextManager[None]:
        """Holds one of the company's slots for open streams. Raises ``RateLimited`` if all slots are in use."""
        return self._slots.taken(caller.identity.company_id)

    def check(self, key_id: str) -> None:
        """Raises ``KeyRevoked`` if the key was revoked recently."""
        if key_id in self._revoked:
            raise KeyRevoked

    @asynccontextmanager
    async def opened(self, caller: Principal, gauge: Gauge = OPEN_STREAMS) -> AsyncIterator[None]:
        """Tracks the current task as an open stream to the caller.

        Raises ``AuthenticationFailed`` when the credential expires, and ``KeyRevoked`` when it's revoked.
        """
        task, key_id = asyncio.current_task(), caller.identity.key_id
        assert task is not None
        left = None if caller.expires_at is None else (caller.expires_at - self._now()).total_seconds()
        expiry = asyncio.timeout(left)
        self._open[key_id].add(task)
        gauge.inc()
        try:
            async with expiry:
                yield
        except TimeoutError:
            if not expiry.expired():
                raise
            raise AuthenticationFailed("The credential has expired. Reconnect with a new one.") from None
        except asyncio.CancelledError:
            if task not in self._ended:
                raise
            raise KeyRevoked from None
        finally:
            gauge.dec()
            self._open[key_id].discard(task)
            if not self._open[key_id]:
                del self._open[key_id]

    def refuse(self, key_id: str) -> None:
        """Ends the streams that were opened with the key, and refuses new streams."""
        self._revoked[key_id] = None
        if len(self._revoked) > _MAX_REVOKED:
            self._revoked.popitem(last=False)
        self.end(key_id)

    def end(self, key_id: str) -> None:
        """Ends the streams that were opened with the key."""
        for task in list(self._open.get(key_id, ())):
            self._ended.add(task)
            task.add_done_callback(self._ended.discard)
            task.cancel()


class EventStreamResponse(StreamingResponse):
    """Streams events as they arrive."""

    def __init__(
        self,
        first: bytes,
        events: AsyncGenerator[bytes, None],
        streams: EventStreams,
        caller: Principal,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(resumed(first, events), headers={**headers, **_HEADERS})
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        # Unlike Starlette's response, doesn't use a task per stream: DisconnectWatcher detects disconnects.
        try:
            async with self._streams.opened(self._caller):
                if scope["method"] == "HEAD":
                    self.body_iterator = no_body()
                await self.stream_response(send)
        except KeyRevoked:
            await send({"type": "http.response.body", "body": b""})


async def no_body() -> AsyncGenerator[bytes, None]:
    """Yields nothing, as the body for HEAD. With the body for GET, the server would wait for the stream's end."""
    return
    yield


async def resumed(first: T, rest: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    """Yields ``first``, and then the rest."""
    yield first
    # The stream may last long, so free its first chunk.
    del first
    async for event in rest:
        yield event
