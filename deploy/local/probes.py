"""Readiness probes; none raises or takes longer than two seconds."""

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress

_SECONDS = 2
# ApiVersions, version 0, correlation id 1, no client id: any client's first question to a broker.
_KAFKA_QUESTION = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_POSTGRES_SSL_QUESTION = struct.pack(">ii", 8, 80877103)


async def is_ready(port: int, service: str) -> bool:
    """Tells whether the named service listens on the port and is ready."""
    head, _, body = (await _get(port, "/health/ready")).partition(b"\r\n\r\n")
    try:
        return _is_ok(head) and json.loads(body)["service"] == service
    except (ValueError, KeyError, TypeError):
        return False


async def answers_ok(port: int, path: str) -> bool:
    """Whether a GET of `path` is answered with 200."""
    return _is_ok(await _get(port, path))


def _is_ok(answer: bytes) -> bool:
    return answer.split(None, 2)[1:2] == [b"200"]


async def _get(port: int, path: str) -> bytes:
    request = f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n"
    return await _ask(port, request.encode(), lambda reader: reader.read())


async def broker_answers(port: int) -> bool:
    answer = await _ask(port, _KAFKA_QUESTION, lambda reader: reader.readexactly(10))
    return len(answer) == 10 and struct.unpack(">iih", answer)[1:] == (1, 0)


async def postgres_listens(port: int) -> bool:
    """Whether a PostgreSQL server takes connections; it may still be recovering."""
    return await _ask(port, _POSTGRES_SSL_QUESTION, lambda reader: reader.readexactly(1)) in (b"N", b"S")


async def _ask(port: int, question: bytes, read: Callable[[asyncio.StreamReader], Awaitable[bytes]]) -> bytes:
    """Sends bytes to a port of this machine; returns the answer, empty when there is none."""
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(question)
                return await read(reader)
            finally:
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return b""
