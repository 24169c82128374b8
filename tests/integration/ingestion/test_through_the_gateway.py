"""Uploads and downloads stream through the gateway, over real connections, without being buffered."""

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from libs.eventing import IdentitySigner
from libs.service_defaults import UpstreamClient
from libs.service_defaults._http_server import HttpServer
from services.gateway.domain.tokens import JwtTokens
from services.gateway.entrypoints.public_api import Dependencies, PublicApi
from tests.integration.ingestion.conftest import SIGNING_KEY, Ingestion
from tests.support.company_limits import NO_LIMITS, FakeSharedLimits, FakeSharedState
from tests.support.gateway import Clock, FakeBus
from tests.support.gateway_stores import FakeConnections, FakeIdempotency, FakeKeys
from tests.support.operations import FakeConsumerGroups, FakeDeadLetters, FakeServiceHealth
from tests.support.timeline import FakeTimeline
from tests.support.waiting import WITHIN, until
from tests.support.webhook_fakes import CIPHER

HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
TAIL = b"\r\n--b--\r\n"


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[int]:
    """The port on which the application answers."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = HttpServer(app, host="127.0.0.1", port=0, grace_seconds=1)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    await until(lambda: server.started)
    yield listening.getsockname()[1]
    server.should_exit = True
    await serving


@dataclass
class Front:
    client: httpx.AsyncClient
    port: int
    secret: str
    calls: UpstreamClient

    async def raw(self, head: str, *body: bytes) -> tuple[int, bytes]:
        """Send everything without waiting for anything, then read the answer."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        lines = f"POST /api/v1/files/ HTTP/1.1\r\nHost: x\r\nx-api-key: {self.secret}\r\n{head}\r\n\r\n"
        writer.write(lines.encode())
        for piece in body:
            writer.write(piece)
            await writer.drain()
        async with asyncio.timeout(WITHIN):
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(
                int(line.split(b":")[1]) for line in answer.lower().splitlines() if line.startswith(b"content-length")
            )
            text = await reader.readexactly(length)
        writer.close()
        return int(answer.split()[1]), text


@pytest.fixture
async def front(ingestion: Ingestion) -> AsyncIterator[Front]:
    async with served(ingestion.service.http) as owner_port:
        calls = UpstreamClient({"ingestion": f"http://127.0.0.1:{owner_port}"}, IdentitySigner(SIGNING_KEY))
        clock, idempotency = Clock(), FakeIdempotency()
        keys = FakeKeys(idempotency)
        outside = Dependencies(
            keys=keys,
            connections=FakeConnections(idempotency),
            tokens=JwtTokens("k" * 40),
            idempotency=idempotency,
            bus=FakeBus(),
            upstreams=calls,
            timeline=FakeTimeline(),
            cipher=CIPHER,
            read_replicas=FakeServiceHealth().replicas,
            read_lag=FakeConsumerGroups().lag,
            open_dead_letters=FakeDeadLetters().open,
            shared_limits=FakeSharedLimits(FakeSharedState(clock.monotonic)),
            limits=NO_LIMITS,
            now=clock.now,
            monotonic=clock.monotonic,
        )
        secret, _ = keys.issue()
        async with (
            served(PublicApi(outside).application) as port,
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}/api/v1", headers={"x-api-key": secret}, timeout=WITHIN
            ) as client,
        ):
            yield Front(client, port, secret, calls)
        await calls.stop()


async def test_a_file_goes_up_and_comes_down(front: Front) -> None:
    content = "Grüße\n".encode() * 100_000

    up = await front.client.post("/files/", files={"file": ("a.txt", content)}, headers={"X-Correlation-ID": "mine"})

    file = up.json()
    assert (up.status_code, up.headers["x-correlation-id"]) == (201, "mine")
    assert up.headers["location"] == f"/api/v1/files/{file['id']}/"
    assert file["sha256"] == hashlib.sha256(content).hexdigest()
    path = f"/files/{file['id']}/download/"
    down = await front.client.get(path)
    assert (down.status_code, down.content) == (200, content)
    part = await front.client.get(path, headers={"Range": "bytes=3-9"})
    assert (part.status_code, part.content) == (206, content[3:10])
    known = await front.client.get(path, headers={"If-None-Match": down.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")
    listed = await front.client.get("/files/", params={"name": "A.TXT"})
    assert listed.json()["files"] == [file]


@pytest.mark.parametrize(
    ("name", "content", "status", "kind"),
    [
        ("a.exe", b"x" * 900_000, 415, "unsupported_media_type"),
        ("a.txt", b"", 422, "validation_error"),
        ("a.txt", b"x" * 3_000_000, 413, "request_too_large"),
    ],
)
async def test_refusals_of_the_owner_reach_the_caller(
    front: Front, ingestion: Ingestion, name: str, content: bytes, status: int, kind: str
) -> None:
    up = await front.client.post("/files/", files={"file": (name, content)})

    error = up.json()["error"]
    assert (up.status_code, error["type"]) == (status, kind)
    assert error["correlation_id"] == up.headers["x-correlation-id"]
    assert await ingestion.stored() == []


async def test_too_much_is_told_to_who_sends_without_waiting(front: Front, ingestion: Ingestion) -> None:
    much = [b"x" * 1_000_000] * 20
    length = len(HEAD) + 20_000_000 + len(TAIL)
    form = "Content-Type: multipart/form-data; boundary=b\r\n"

    declared = await front.raw(f"{form}Content-Length: {length}", HEAD, *much, TAIL)
    chunks = [b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (HEAD, *much, TAIL)]
    chunked = await front.raw(f"{form}Transfer-Encoding: chunked", *chunks, b"0\r\n\r\n")
    announced = await front.raw(f"{form}Expect: 100-continue\r\nContent-Length: {10**12}")

    assert [declared[0], chunked[0], announced[0]] == [413, 413, 413]
    assert b"request_too_large" in declared[1]
    assert await ingestion.stored() == []
    assert (await front.client.get("/files/")).status_code == 200


async def test_a_caller_who_leaves_in_the_middle_leaves_nothing(front: Front, ingestion: Ingestion) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", front.port)
    head = f"POST /api/v1/files/ HTTP/1.1\r\nHost: x\r\nx-api-key: {front.secret}\r\nContent-Length: 900000\r\n"
    writer.write(head.encode() + b"Content-Type: multipart/form-data; boundary=b\r\n\r\n" + HEAD + b"x" * 400_000)
    await writer.drain()
    await until(lambda: ingestion.rows("SELECT id FROM blobs"))
    writer.close()

    async def discarded() -> bool:
        return not await ingestion.rows("SELECT id FROM blobs WHERE state = 'uploading'")

    await until(discarded)
    assert await ingestion.stored() == []


@pytest.mark.outage("ingestion, for the gateway")
async def test_an_owner_that_is_away(front: Front, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(front.calls._addresses.by_service, "ingestion", ["http://127.0.0.1:1"])
    up = await front.client.post("/files/", files={"file": ("a.txt", b"x" * 5_000_000)})
    assert (up.status_code, up.json()["error"]["type"]) == (503, "service_unavailable")
