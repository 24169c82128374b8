"""Readiness probes. They never raise an exception, and take at most two seconds."""

import asyncio
import struct
from collections.abc import Awaitable
from contextlib import suppress
from typing import TypeVar

from libs.diagnostics.health import ask_health

T = TypeVar("T")
_SECONDS = 2
# ApiVersions, version 0, correlation ID 1, no client ID: any client's first request to a broker.
_KAFKA_QUESTION = struct.pack(">ihhih", 10, 18, 0, 1, -1)
_POSTGRES_SSL_QUESTION = struct.pack(">ii", 8, 80877103)


async def is_ready(port: int, service: str) -> bool:
    health = await _within_time(ask_health(f"http://127.0.0.1:{port}", service))
    return health is not None and health.is_ready


async def broker_answers(port: int) -> bool:
    answer = await _within_time(_ask(port, _KAFKA_QUESTION, 10))
    return answer is not None and struct.unpack(">iih", answer)[1:] == (1, 0)


async def postgres_listens(port: int) -> bool:
    """Returns whether a PostgreSQL server accepts connections, even if it's still recovering."""
    return await _within_time(_ask(port, _POSTGRES_SSL_QUESTION, 1)) in (b"N", b"S")


async def _within_time(asking: Awaitable[T]) -> T | None:
    """Returns None if there's no response in time."""
    try:
        async with asyncio.timeout(_SECONDS):
            return await asking
    except (OSError, TimeoutError, asyncio.IncompleteReadError):
        return None


async def _ask(port: int, question: bytes, size: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(question)
        return await reader.readexactly(size)
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
