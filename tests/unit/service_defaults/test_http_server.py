"""Limits of the HTTP server that hold before the application sees a request."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator

import pytest

from libs.service_defaults._http_server import LARGEST_HEAD, BoundedConnection, HttpServer
from tests.support.waiting import until

BEGINNING = b"GET / HTTP/1.1\r\nHost: x\r\n"


GATE = asyncio.Event()


# More than the buffers of a connection hold.
LARGE = bytes(32 * 1024 * 1024)


async def _application(scope: dict[str, str], _receive: object, send: object) -> None:
    if scope["path"] == "/slow":
        await GATE.wait()
    if scope["path"] == "/large":
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": LARGE, "more_body": True})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b"end"})  # type: ignore[operator]
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b"ok"})  # type: ignore[operator]


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    server = HttpServer(_application, host="127.0.0.1", port=0, grace_seconds=1)  # type: ignore[arg-type]
    serving = asyncio.create_task(server.serve_until_stopped())
    await until(lambda: server.started)
    yield server
    server.should_exit = True
    await serving


@pytest.fixture
def port(server: HttpServer) -> int:
    found: int = server.servers[0].sockets[0].getsockname()[1]
    return found


async def _until_closed(port: int, *pieces: bytes) -> bytes:
    """The answer to these bytes; the server is the one to close."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(60):
            return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.close()


@pytest.mark.parametrize("head", [b"X-Big: " + b"a" * LARGEST_HEAD, b"X-Small: a\r\n" * (LARGEST_HEAD // 10)])
async def test_a_head_without_end_is_refused(port: int, head: bytes) -> None:
    answer = await _until_closed(port, BEGINNING, head)
    _check_error(answer, 431, "request_too_large")


@pytest.mark.parametrize(
    "request_bytes", [b"NONSENSE\r\n\r\n", b"GET / HTTP/1.1\r\nBad Header: x\r\n\r\n", b"\x16\x03\x01\0\0"]
)
async def test_what_is_no_http_gets_an_error_like_others(port: int, request_bytes: bytes) -> None:
    _check_error(await _until_closed(port, request_bytes), 400, "invalid_request_error")


def _check_error(answer: bytes, status: int, kind: str) -> None:
    head, _, body = answer.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    error = json.loads(body)["error"]
    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert (headers["content-type"], headers["content-length"]) == ("application/json", str(len(body)))
    assert (error["type"], error["correlation_id"]) == (kind, headers["X-Correlation-ID"])


async def test_large_bodies_and_many_requests_are_no_large_head(port: int) -> None:
    size = LARGEST_HEAD
    post = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % size + b"b" * size
    last = BEGINNING + b"Connection: close\r\n\r\n"
    answer = await _until_closed(port, *[post] * 3, last)
    assert answer.count(b"HTTP/1.1 200 OK") == 4


@pytest.mark.parametrize("pieces", [(), (BEGINNING,), (BEGINNING + b"\r\n", b"GET / HT")])
async def test_a_head_that_is_not_finished_in_time_ends_the_connection(
    port: int, monkeypatch: pytest.MonkeyPatch, pieces: tuple[bytes, ...]
) -> None:
    monkeypatch.setattr(BoundedConnection, "head_seconds", 0.1)
    answer = await _until_closed(port, *pieces)
    assert answer.count(b"HTTP/1.1 200 OK") == len(pieces) // 2


async def test_turning_away_finishes_current_requests_and_accepts_no_connections(server: HttpServer, port: int) -> None:
    GATE.clear()
    idle, idle_writer = await asyncio.open_connection("127.0.0.1", port)
    idle_writer.write(BEGINNING + b"\r\n")
    assert (await idle.readuntil(b"ok")).startswith(b"HTTP/1.1 200 OK")
    busy = asyncio.create_task(_until_closed(port, b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n"))
    await until(lambda: server.server_state.tasks)
    async with asyncio.timeout(60):
        server.stop_accepting()
        assert await idle.read() == b""
        idle_writer.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection("127.0.0.1", port)
        assert not busy.done()
        GATE.set()
        answer = await busy
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close" in answer


@pytest.mark.parametrize("connection", [b"close", b"keep-alive"])
async def test_a_client_that_reads_nothing_of_an_answer_is_disconnected(
    server: HttpServer, port: int, monkeypatch: pytest.MonkeyPatch, connection: bytes
) -> None:
    monkeypatch.setattr(BoundedConnection, "unread_seconds", 0.1)
    request = b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: " + connection + b"\r\n\r\n"
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    writer.write(request)
    await until(lambda: server.server_state.connections)
    await until(lambda: not server.server_state.connections and not server.server_state.tasks)
    writer.close()


async def _stuck(server: HttpServer, port: int) -> tuple[BoundedConnection, asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection whose client does not read, as soon as the server waits for it to read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
    [connection] = await until(lambda: list(server.server_state.connections))
    await until(lambda: connection.reader_timer.handle)
    return connection, reader, writer


async def test_the_buffer_shows_what_a_reader_takes(server: HttpServer, port: int) -> None:
    connection, reader, writer = await _stuck(server, port)
    before = await _settled(connection)
    # The client's own system opens its window only when a good part of its buffer is free.
    taken = 0
    async with asyncio.timeout(60):
        while connection.transport.get_write_buffer_size() == before:
            taken += len(await reader.read(64 * 1024))
    assert taken < len(LARGE) // 4, "most of an answer may be taken before anything is seen of it"
    writer.close()


async def _settled(connection: BoundedConnection) -> int:
    """The size of the buffer once the systems at both ends have taken all they can."""
    looks = deque[int](maxlen=20)

    def rests() -> bool:
        looks.append(connection.transport.get_write_buffer_size())
        return len(looks) == looks.maxlen and len(set(looks)) == 1

    await until(rests)
    return looks[0]


async def test_a_client_that_reads_slowly_is_served(server: HttpServer, port: int) -> None:
    connection, reader, writer = await _stuck(server, port)
    await _settled(connection)
    taken = 0
    for _ in range(3):
        before = connection.transport.get_write_buffer_size()
        # What a client reads in the time of a timer, far from the end of the answer; then the timer ends.
        async with asyncio.timeout(60):
            while connection.transport.get_write_buffer_size() == before:
                taken += len(await reader.readexactly(256 * 1024))
        timer = connection.reader_timer.handle
        timer._run()  # type: ignore[attr-defined]
        timer.cancel()
        assert connection.reader_timer.handle not in (None, timer)
    assert taken < len(LARGE)
    assert not connection.transport.is_closing(), "it was ended although its client read"
    writer.close()
