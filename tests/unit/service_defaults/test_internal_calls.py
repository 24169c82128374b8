"""Calls between services, against a server of the test's own."""

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from libs.contracts.errors import NotFound, ServiceUnavailable
from libs.contracts.messages import Envelope, Received
from libs.contracts.timestamps import now_text
from libs.eventing import IdentitySigner, LookUp, ReplyState
from libs.service_defaults import UpstreamClient
from libs.service_defaults.internal_calls import UpstreamAddresses, UpstreamResponse, checked
from libs.service_defaults.internal_routes import encode_event
from libs.tracing import bind_correlation_id
from tests.support.command_records import ALICE, SIGNING_KEY
from tests.support.waiting import until

SIGNER = IdentitySigner(SIGNING_KEY)
EVENT = Envelope(
    id="event",
    type="aes.notes.note.taken.v1",
    source="/aes/notes",
    subject="n",
    time=now_text(),
    correlation_id="correlation",
    company_id="company-1",
    causation_id="command",
    sequence=3,
)


class Neighbour:
    """Answers with what a test sets and remembers the requests."""

    def __init__(self) -> None:
        self.address = ""
        self.status = 200
        self.body = b""
        self.silent = False
        self.ends = 0
        """So many requests it meets with its end."""
        self.requests: list[web.Request] = []

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        await request.read()
        if self.silent:
            await asyncio.Event().wait()
        if self.ends:
            self.ends -= 1
            request.transport.abort()
        return web.Response(status=self.status, body=self.body, content_type="application/json")


@pytest.fixture
def neighbour() -> Neighbour:
    return Neighbour()


@pytest.fixture
async def calls(neighbour: Neighbour) -> AsyncIterator[UpstreamClient]:
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", neighbour.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    neighbour.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    client = UpstreamClient({"notes": neighbour.address, "gone": "http://127.0.0.1:9", "absent": ""}, SIGNER)
    yield client
    await client.stop()
    await runner.cleanup()


@pytest.fixture
async def calls_to(calls: UpstreamClient) -> AsyncIterator[Callable[[str], UpstreamClient]]:
    """Makes a client of the service ``notes`` at these addresses."""
    clients: list[UpstreamClient] = []

    def make(addresses: str) -> UpstreamClient:
        clients.append(UpstreamClient({"notes": addresses}, SIGNER))
        return clients[-1]

    yield make
    for client in clients:
        await client.stop()


async def test_a_call_carries_its_caller_and_its_correlation_id(calls: UpstreamClient, neighbour: Neighbour) -> None:
    bind_correlation_id("my-correlation")
    neighbour.status, neighbour.body = 404, b'{"error":{}}'
    answer = await calls.get("notes", "/internal/notes", ALICE, {"limit": 5})
    assert (answer.status, answer.body, answer.content_type.split(";")[0]) == (404, b'{"error":{}}', "application/json")
    (request,) = neighbour.requests
    assert (request.path, request.query["limit"]) == ("/internal/notes", "5")
    assert request.headers["X-Correlation-ID"] == "my-correlation"
    assert SIGNER.verify_call(request.headers["Authorization"].removeprefix("Bearer ")) == ALICE


async def test_an_upstream_that_does_not_answer_is_unavailable(calls: UpstreamClient, neighbour: Neighbour) -> None:
    for upstream in ("gone", "absent", "unheard of"):
        with pytest.raises(ServiceUnavailable):
            await calls.get(upstream, "/", ALICE)
    neighbour.silent = True
    with pytest.raises(ServiceUnavailable):
        await calls.request("POST", "notes", "/", ALICE, body=b"{}", deadline=0.1)
    assert calls.installed("notes")
    assert not calls.installed("absent")


async def _drops(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes a request and ends, as a process does that is killed at its work."""
    await reader.readuntil(b"\r\n\r\n")
    writer.close()


@pytest.fixture
async def dropping() -> AsyncIterator[str]:
    server = await asyncio.start_server(_drops, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


async def test_calls_go_to_the_processes_of_a_service_in_turn(
    neighbour: Neighbour, calls_to: Callable[[str], UpstreamClient]
) -> None:
    calls = calls_to(f"{neighbour.address}, {neighbour.address.replace('127.0.0.1', 'localhost')}")
    for _ in range(4):
        assert (await calls.get("notes", "/", ALICE)).status == 200
    assert sorted(request.host.split(":")[0] for request in neighbour.requests) == ["127.0.0.1"] * 2 + ["localhost"] * 2


async def test_a_process_that_is_gone_or_ends_is_followed_by_the_next(
    neighbour: Neighbour, calls_to: Callable[[str], UpstreamClient], dropping: str
) -> None:
    calls = calls_to(f"http://127.0.0.1:9,{dropping},{neighbour.address}")
    for _ in range(6):
        assert (await calls.request("POST", "notes", "/", ALICE, body=b"{}")).status == 200
    assert len(neighbour.requests) == 6
    with pytest.raises(ServiceUnavailable):
        await calls_to(f"http://127.0.0.1:9,{dropping}").get("notes", "/", ALICE)


async def test_a_call_that_is_made_at_most_once_is_not_made_again(
    neighbour: Neighbour, calls_to: Callable[[str], UpstreamClient], dropping: str
) -> None:
    # Who could not be connected to has done nothing.
    reached = calls_to(f"http://127.0.0.1:9,{neighbour.address}")
    for _ in range(4):
        assert (await reached.request("POST", "notes", "/", ALICE, body=b"{}", once=True)).status == 200
    ends = calls_to(f"{dropping},{neighbour.address}")
    answered = await asyncio.gather(
        *(ends.request("POST", "notes", "/", ALICE, body=b"{}", once=True) for _ in range(6)), return_exceptions=True
    )
    lost = [answer for answer in answered if isinstance(answer, ServiceUnavailable)]
    # Calls begin at the two addresses in turn.
    assert len(lost) == 3
    assert len(neighbour.requests) == 4 + 3


async def _hangs(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Takes a connection and never answers, as a process does that is stopped."""
    await asyncio.Event().wait()


@pytest.fixture
async def hanging() -> AsyncIterator[str]:
    server = await asyncio.start_server(_hangs, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.mark.virtual_time
async def test_a_silent_process_is_waited_for_half_of_the_deadline_and_skipped_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls = UpstreamClient({"notes": "http://silent,http://answers"}, SIGNER)
    tried: list[str] = []

    async def attempt(_method: str, url: str, _sent: object) -> UpstreamResponse:
        tried.append(url)
        if url == "http://silent/":
            await asyncio.Event().wait()
        return UpstreamResponse(200, b"", "")

    monkeypatch.setattr(calls, "_try", attempt)
    took = []
    for _ in range(6):
        began = asyncio.get_running_loop().time()
        assert (await calls.get("notes", "/", ALICE, deadline=2.0)).status == 200
        took.append(asyncio.get_running_loop().time() - began)
    assert sorted(took) == [0.0] * 5 + [pytest.approx(1.0)]
    assert (tried.count("http://silent/"), tried.count("http://answers/")) == (1, 6)


async def test_streams_begin_at_a_process_that_answers(
    neighbour: Neighbour, calls_to: Callable[[str], UpstreamClient], hanging: str
) -> None:
    calls = calls_to(f"{hanging},{neighbour.address}")
    calls._addresses.skip(hanging)
    for _ in range(2):
        async with asyncio.timeout(60), calls.exchange("GET", "notes", "/", ALICE) as answer:
            assert answer.status == 200


def test_a_silent_process_is_tried_again_by_one_call_at_a_time() -> None:
    now = 0.0
    addresses = UpstreamAddresses({"notes": "http://a,http://b"}, lambda: now)
    addresses.skip("http://a")
    assert [addresses.in_order("notes")[0] for _ in range(4)] == ["http://b"] * 4
    now = 10.0
    assert sorted(addresses.in_order("notes")[0] for _ in range(4)) == ["http://a"] + ["http://b"] * 3
    addresses.answered("http://a")
    assert sorted(addresses.in_order("notes")[0] for _ in range(4)) == ["http://a"] * 2 + ["http://b"] * 2


async def test_behind_one_address_may_be_several_processes(neighbour: Neighbour, calls: UpstreamClient) -> None:
    neighbour.ends = 1
    assert (await calls.request("POST", "notes", "/", ALICE, body=b"{}")).status == 200
    assert len(neighbour.requests) == 2
    neighbour.ends = 2
    with pytest.raises(ServiceUnavailable):
        await calls.request("POST", "notes", "/", ALICE, body=b"{}")


async def test_a_stream_begins_at_a_reachable_process(
    neighbour: Neighbour, calls_to: Callable[[str], UpstreamClient]
) -> None:
    calls = calls_to(f"http://127.0.0.1:9,{neighbour.address}")

    async def body() -> AsyncIterator[bytes]:
        yield b"some "
        yield b"bytes"

    for _ in range(2):
        async with calls.exchange("POST", "notes", "/", ALICE, body=body()) as answer:
            assert answer.status == 200
    assert len(neighbour.requests) == 2


async def test_streams_that_stall_do_not_keep_short_calls_out(calls: UpstreamClient, neighbour: Neighbour) -> None:
    async def stalled() -> None:
        async with calls.exchange("GET", "notes", "/internal/bytes", ALICE):
            pass

    neighbour.silent = True
    streams = [asyncio.create_task(stalled()) for _ in range(250)]
    # More than that where some have been given up meanwhile.
    await until(lambda: len(neighbour.requests) >= 200)
    neighbour.silent = False

    assert (await calls.get("notes", "/internal/notes/1", ALICE, deadline=60.0)).status == 200

    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.parametrize("name", [".", "..", "%2e%2E", "..?all=1", "../", "./x"])
async def test_a_name_of_dots_is_answered_without_a_call(
    calls: UpstreamClient, neighbour: Neighbour, name: str
) -> None:
    answer = await calls.get("notes", f"/internal/notes/{name}", ALICE)
    with pytest.raises(NotFound, match="nothing with this name"):
        checked(answer)
    async with calls.exchange("GET", "notes", f"/internal/notes/{name}", ALICE) as stream:
        assert (stream.status, b"".join([piece async for piece in stream.pieces])) == (404, answer.body)
    assert not neighbour.requests


async def test_dots_within_a_name_are_asked_for(calls: UpstreamClient, neighbour: Neighbour) -> None:
    names = ("1.0.0", "...", ".hidden", "a..", "%252e")
    for name in names:
        assert (await calls.get("notes", f"/internal/notes/{name}", ALICE)).status == 200
    assert [request.raw_path for request in neighbour.requests] == [f"/internal/notes/{name}" for name in names]


async def test_the_state_of_a_command(calls: UpstreamClient, neighbour: Neighbour) -> None:
    neighbour.status = 404
    assert await calls.command_state("notes", "c", ALICE) == LookUp(ReplyState.WAITING)
    neighbour.status = 202
    assert await calls.command_state("notes", "c", ALICE) == LookUp(ReplyState.ACCEPTED)
    neighbour.status, neighbour.body = 200, encode_event(EVENT, b'{"text":"two\nlines"}')
    recorded = Received(EVENT, b'{"text":"two\nlines"}')
    assert await calls.command_state("notes", "c", ALICE) == LookUp(ReplyState.ANSWERED, recorded)
    neighbour.status = 500
    with pytest.raises(ServiceUnavailable):
        await calls.command_state("notes", "c", ALICE)
    assert {request.path for request in neighbour.requests} == {"/internal/commands/c"}


async def test_a_payload_is_fetched_for_its_company(calls: UpstreamClient, neighbour: Neighbour) -> None:
    neighbour.body = b"large"
    assert await calls.payload("notes", "/internal/events/e/payload", "company-7") == b"large"
    token = neighbour.requests[0].headers["Authorization"].removeprefix("Bearer ")
    assert SIGNER.verify_call(token).company_id == "company-7"
    neighbour.status = 404
    with pytest.raises(ServiceUnavailable):
        await calls.payload("notes", "/internal/events/e/payload", "company-7")
