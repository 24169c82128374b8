"""Server-sent events: their form, and the open streams of each key, which end when it is revoked."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from datetime import datetime
from typing import Final

from fastapi import Request
from prometheus_client import Gauge
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from libs.contracts.errors import AuthenticationFailed
from libs.eventing import ReadTooSlowly
from services.gateway.domain.accounts import Principal
from services.gateway.entrypoints.door.metrics import OPEN_STREAMS, SLOW_READERS
from services.gateway.use_cases.places import StreamPlaces

MEDIA_TYPE: Final = "text/event-stream"
KEEP_ALIVE: Final = b": keep-alive\n\n"
_HEADERS: Final = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
_MAX_REVOKED: Final = 10_000
_PIECE_BYTES: Final = 256 * 1024


def held_by(request: Request) -> AsyncExitStack:
    """The stack of the request: it is closed at its end, whether or not its response is ever sent."""
    held: AsyncExitStack = request.state.held
    return held


def render_event(name: str, data: bytes, *, event_id: str | None = None) -> bytes:
    """One event; every line of the data is marked as such. After its id the client goes on when it reconnects."""
    lines = b"\ndata: ".join(data.splitlines()) if b"\n" in data or b"\r" in data else data
    head = b"" if event_id is None else b"id: " + event_id.encode() + b"\n"
    return head + b"event: " + name.encode() + b"\ndata: " + lines + b"\n\n"


def in_pieces(events: Iterable[bytes]) -> Iterator[bytes]:
    """The events joined to pieces of at most 256 KiB; a larger event is a piece by itself."""
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
    """The event streams that are open, by the key that they were asked for with."""

    def __init__(self, now: Callable[[], datetime], places: StreamPlaces) -> None:
        self._now = now
        self._places = places
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
        """A response of these events, the first of which is there: what fails before it is answered with its status.

        Without any event it has status 204, which tells browsers not to connect again.
        Raises ``AuthenticationFailed`` when the key was revoked meanwhile, and ``RateLimited``, before anything has
        begun, when the company has as many streams as it may have.
        """
        held = held_by(request)
        held.push_async_callback(events.aclose)
        await held.enter_async_context(self.place(caller))
        first = await anext(events, None)
        # Between the check of a key and the first event of a turn lie seconds.
        self.check(caller.identity.key_id)
        if first is None:
            return Response(status_code=204)
        return EventStreamResponse(first, events, self, caller, headers or {})

    def place(self, caller: Principal) -> AbstractAsyncContextManager[None]:
        """A place of the caller's company. Raises ``RateLimited`` when all of them are taken."""
        return self._places.taken(caller.identity.company_id)

    def check(self, key_id: str) -> None:
        """Raises ``AuthenticationFailed`` when the key was revoked meanwhile."""
        if key_id in self._revoked:
            raise AuthenticationFailed("The API key has been revoked.")

    @contextmanager
    def opened(self, key_id: str, gauge: Gauge = OPEN_STREAMS) -> Iterator[None]:
        """While the running task sends a stream to that key's holder, counted by the gauge."""
        task = asyncio.current_task()
        assert task is not None
        self._open[key_id].add(task)
        gauge.inc()
        try:
            yield
        finally:
            gauge.dec()
            self._open[key_id].discard(task)
            if not self._open[key_id]:
                del self._open[key_id]

    def seconds_left(self, caller: Principal) -> float | None:
        """The time until the caller's credential expires; none when it never does."""
        return None if caller.expires_at is None else (caller.expires_at - self._now()).total_seconds()

    def refuse(self, key_id: str) -> None:
        """Ends the streams of that key's holder; those that are about to begin are refused."""
        self._revoked[key_id] = None
        if len(self._revoked) > _MAX_REVOKED:
            self._revoked.popitem(last=False)
        self.end(key_id)

    def end(self, key_id: str) -> None:
        """Cancels the tasks that send streams to that key's holder."""
        for task in list(self._open.get(key_id, ())):
            self._ended.add(task)
            task.add_done_callback(self._ended.discard)
            task.cancel()

    def was_ended(self) -> bool:
        """Whether ``end`` is why the running task was cancelled."""
        return asyncio.current_task() in self._ended


class EventStreamResponse(StreamingResponse):
    """Events as they come. The end of the request closes the generator, which ends what it stands for."""

    def __init__(
        self,
        first: bytes,
        events: AsyncGenerator[bytes, None],
        streams: EventStreams,
        caller: Principal,
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(_chain(first, events), headers={**headers, **_HEADERS})
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        # Not as Starlette does it: DisconnectWatcher notices who leaves, without a task for each stream.
        expiry = asyncio.timeout(self._streams.seconds_left(self._caller))
        try:
            async with expiry:
                with self._streams.opened(self._caller.identity.key_id):
                    if scope["method"] == "HEAD":
                        self.body_iterator = no_body()
                    await self.stream_response(send)
        except TimeoutError:
            if not expiry.expired():
                raise
            raise AuthenticationFailed("The credential has expired.") from None
        except asyncio.CancelledError:
            if not self._streams.was_ended():
                raise
            await send({"type": "http.response.body", "body": b""})
        except ReadTooSlowly:
            SLOW_READERS.inc()
            raise


async def no_body() -> AsyncGenerator[bytes, None]:
    """The body of a streamed answer to HEAD, whose server would otherwise wait for the end of what nobody gets."""
    return
    yield


async def _chain(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    yield first
    # A stream lasts longer than its first piece is needed.
    del first
    async for event in rest:
        yield event
