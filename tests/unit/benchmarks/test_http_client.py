import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from benchmarks.load.http_client import Connection, RequestFailed, post

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Handler], Awaitable[Connection]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[asyncio.Server] = []
    connections: list[Connection] = []

    async def start(handler: Handler) -> Connection:
        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        servers.append(server)
        connections.append(Connection("127.0.0.1", server.sockets[0].getsockname()[1]))
        return connections[-1]

    yield start
    for connection in connections:
        connection.close()
    for server in servers:
        server.close()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return await reader.readexactly(length)


async def test_one_connection_serves_many_requests(serve: Serve) -> None:
    opened = 0

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        for _ in range(2):
            body = await _request(reader)
            writer.write(b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        writer.close()

    connection = await serve(echo)

    answers = [await connection.request(post("/", "h", body, {})) for body in (b"one", b"two")]

    assert [(answer.status, answer.body) for answer in answers] == [(201, b"one"), (201, b"two")]
    assert opened == 1


async def test_the_marker_is_found_across_pieces_of_a_stream_before_its_end(serve: Serve) -> None:
    async def stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for piece in (b"event: de", b"lta\n", b"the rest"):
            writer.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            await writer.drain()
            # The client, in the same loop, reads it before the next one comes.
            for _ in range(10):
                await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        writer.close()

    connection = await serve(stream)

    answer = await connection.request(post("/", "h", b"{}", {}), marker=b"event: delta\n")

    assert answer.body == b"event: delta\nthe rest"
    assert answer.first_mark is not None
    assert answer.first_mark < answer.seconds


async def test_a_connection_that_breaks_fails_the_request_and_the_next_one_gets_a_new_connection(serve: Serve) -> None:
    broken = False

    async def break_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal broken
        await _request(reader)
        if broken:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        broken = True
        writer.close()

    connection = await serve(break_once)

    with pytest.raises(RequestFailed):
        await connection.request(post("/", "h", b"{}", {}))
    assert (await connection.request(post("/", "h", b"{}", {}))).body == b"ok"
