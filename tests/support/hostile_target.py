"""A server on 127.0.0.1 that answers requests of tools as it is told, also against the rules of HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.support.waiting import pace


@dataclass(frozen=True, slots=True)
class Taken:
    """A request as it came. Names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


Answer = Callable[[Taken, asyncio.StreamWriter], Awaitable[None]]


def answering(body: bytes, *, status: str = "200 OK", kind: str = "application/json", more: str = "") -> Answer:
    async def answer(_request: Taken, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{more}\r\n"
        writer.write(head.encode() + body)

    return answer


def redirecting(location: str, status: str = "302 Found") -> Answer:
    return answering(b"", status=status, more=f"Location: {location}\r\n")


async def hanging(_request: Taken, _writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def dripping(_request: Taken, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"x")
        await writer.drain()
        await pace(0.02)


async def flooding(_request: Taken, writer: asyncio.StreamWriter) -> None:
    """Ten megabytes in chunks, so that no header announces them."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(160):
        writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\n\r\n")


async def breaking_off(_request: Taken, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1000\r\n\r\nhalf of it")
    await writer.drain()
    writer.close()


async def closing(_request: Taken, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def not_http(_request: Taken, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x16\x03\x01 this is no HTTP at all\r\n\r\n")
    await writer.drain()
    writer.close()


@dataclass
class HostileTarget:
    host: str = "127.0.0.1"
    port: int = 0
    taken: list[Taken] = field(default_factory=list)
    answers: dict[str, Answer] = field(default_factory=dict)
    """By path without its query; others are answered with `{}`."""
    connections: int = 0

    def url(self, path: str = "/", host: str | None = None) -> str:
        return f"http://{host or self.host}:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while not writer.is_closing():
                request = await self._read(reader)
                self.taken.append(request)
                await self.answers.get(request.path.partition("?")[0], answering(b"{}"))(request, writer)
                await writer.drain()
        writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Taken:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Taken(method, path, headers, body)


@asynccontextmanager
async def hostile_target(host: str = "127.0.0.1") -> AsyncIterator[HostileTarget]:
    target = HostileTarget(host)
    tasks: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(target.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(connected, host, 0)
    target.port = server.sockets[0].getsockname()[1]
    try:
        yield target
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
