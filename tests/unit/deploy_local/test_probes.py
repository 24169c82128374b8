"""Probes recognise the service that they ask."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from deploy.local.probes import is_ready


@asynccontextmanager
async def answering(*pieces: bytes) -> AsyncIterator[int]:
    """The port of a server that answers everything with those pieces, one after the other."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            # The reader, in the same loop, gets to it before the next one comes.
            for _ in range(10):
                await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


async def test_the_service_itself_is_ready() -> None:
    async with answering(b"HTTP/1.1 200 OK\r\n", b'a: b\r\n\r\n{"service": ', b'"gateway"}') as port:
        assert await is_ready(port, "gateway")
        assert not await is_ready(port, "runtime")


@pytest.mark.parametrize(
    "answer",
    [
        b'HTTP/1.1 503 Service Unavailable\r\n\r\n{"service": "gateway"}',
        b"HTTP/1.1 200 OK\r\n\r\nI am another program",
        b"HTTP/1.1 200 OK\r\n\r\n[]",
        b"SSH-2.0-x\r\n",
        b"",
    ],
)
async def test_others_are_not(answer: bytes) -> None:
    async with answering(answer) as port:
        assert not await is_ready(port, "gateway")
