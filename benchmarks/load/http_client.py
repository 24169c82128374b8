"""A kept-alive HTTP/1.1 connection that costs a fraction of what a general client does."""

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, cast

import httptools


class RequestFailed(Exception):
    """The server closed the connection, or answered with something that was not expected."""


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    seconds: float
    first_mark: float | None
    """Seconds until the marker was seen in the body, None when it did not come."""


@dataclass(slots=True)
class _Pending:
    done: asyncio.Future[None]
    marker: bytes | None
    began: float = field(default_factory=time.perf_counter)
    body: bytearray = field(default_factory=bytearray)
    first_mark: float | None = None
    status: int = 0
    keeps_alive: bool = True


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._pending: _Pending | None = None

    async def request(self, message: bytes, marker: bytes | None = None) -> Response:
        """Send a whole request and read its response; raises RequestFailed when the connection breaks."""
        loop = asyncio.get_running_loop()
        if self._transport is None or self._transport.is_closing():
            await loop.create_connection(lambda: self, self._host, self._port)
        assert self._transport is not None
        self._pending = pending = _Pending(loop.create_future(), marker)
        self._transport.write(message)
        await pending.done
        seconds = time.perf_counter() - pending.began
        if not pending.keeps_alive:
            self.close()
        return Response(pending.status, bytes(pending.body), seconds, pending.first_mark)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()
            self._transport = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._parser = cast(asyncio.Transport, transport), httptools.HttpResponseParser(self)

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._pending is not None and not self._pending.done.done():
            self._pending.done.set_exception(RequestFailed(f"the connection was closed before the response: {exc}"))

    def on_body(self, data: bytes) -> None:
        pending = self._pending
        assert pending is not None
        pending.body += data
        if pending.marker is not None and pending.first_mark is None and pending.marker in pending.body:
            pending.first_mark = time.perf_counter() - pending.began

    def on_message_complete(self) -> None:
        pending = self._pending
        assert pending is not None
        pending.status = self._parser.get_status_code()
        pending.keeps_alive = self._parser.should_keep_alive()
        if not pending.done.done():
            pending.done.set_result(None)


def post(path: str, host: str, body: bytes, headers: dict[str, str]) -> bytes:
    """A request as it goes over the wire."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body
