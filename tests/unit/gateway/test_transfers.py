"""Limits for callers who stall."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from libs.contracts.errors import InvalidRequest, RateLimited, ServiceUnavailable
from libs.contracts.identifiers import new_id
from services.gateway.entrypoints.door.callers import ANYBODY
from services.gateway.entrypoints.door.transfer_proxy import COMPANY_TRANSFERS, ProxyResponse, TransferProxy
from services.gateway.entrypoints.door.upload_stream import UploadStream
from tests.support.gateway import FakeBus, FakeUpstreams, Gateway, error_of

FORM = {"content": b"--x--\r\n", "headers": {"content-type": "multipart/form-data; boundary=x"}}


class Caller:
    """Sends so many bytes a second, on a clock of its own, and takes that long for the whole body."""

    def __init__(self, bytes_a_second: int, seconds: int) -> None:
        self.now = 0.0
        self._rate = bytes_a_second
        self._left = seconds

    def clock(self) -> float:
        return self.now

    async def receive(self) -> dict[str, Any]:
        self.now += 1.0
        self._left -= 1
        return {"type": "http.request", "body": b"x" * self._rate, "more_body": self._left > 0}

    async def upload(self) -> int:
        incoming = UploadStream(self.receive, {}, window=60.0, clock=self.clock)
        return sum([len(piece) async for piece in incoming.pieces()])


async def test_a_slow_caller_is_waited_for_and_one_who_drips_is_not() -> None:
    assert await Caller(4_000, seconds=300).upload() == 1_200_000
    assert await Caller(1, seconds=50).upload() == 50
    dripping = Caller(1, seconds=10_000)
    with pytest.raises(InvalidRequest, match="too slow"):
        await dripping.upload()
    assert dripping.now < 70


async def test_a_caller_who_falls_silent_is_not_waited_for() -> None:
    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(InvalidRequest, match="too slow"):
        async for _ in UploadStream(receive, {}, window=0.01).pieces():
            pass


async def test_a_download_that_nobody_takes_ends() -> None:
    async def send(message: Any) -> None:
        if message.get("body"):
            await asyncio.Event().wait()

    upstreams = FakeUpstreams(FakeBus(), {("GET", "artifacts", "/x"): (200, "bytes")})
    async with upstreams.exchange("GET", "artifacts", "/x", ANYBODY.identity) as answer:
        with pytest.raises(TimeoutError):
            await ProxyResponse(answer, piece_seconds=0.01)({"method": "GET"}, no_more, send)


async def no_more() -> Any:
    raise AssertionError("nothing is left to read")


async def test_limits() -> None:
    transfers = TransferProxy(FakeUpstreams(FakeBus()), most=4, each=3)  # type: ignore[arg-type]
    async with AsyncExitStack() as under_way:

        async def begin(company_id: str) -> None:
            await under_way.enter_async_context(transfers.permit(company_id))

        for _ in range(3):
            await begin("a")
        with pytest.raises(RateLimited) as refused:
            await begin("a")
        assert refused.value.retry_after
        await begin("b")
        for company_id in ("b", "c"):
            with pytest.raises(ServiceUnavailable) as unavailable:
                await begin(company_id)
            assert unavailable.value.retry_after
        # Those who follow links take nothing from companies, nor these from them.
        for _ in range(2):
            await begin("")
        with pytest.raises(RateLimited):
            await begin("")
    async with AsyncExitStack() as under_way:
        for _ in range(3):
            await begin("a")


@pytest.mark.parametrize("direction", ["up", "down"])
async def test_above_the_limit_of_a_company_is_429(public: Gateway, direction: str) -> None:
    ended = asyncio.Event()
    held = asyncio.Semaphore(0)
    exchange = public.upstreams.exchange

    def slow(*arguments: Any, **named: Any) -> Any:
        async def pieces(body: AsyncIterator[bytes] | None) -> AsyncIterator[bytes]:
            held.release()
            await ended.wait()
            if body is not None:
                async for piece in body:
                    yield piece

        return exchange(*arguments, **{**named, "body": pieces(named.get("body"))})

    public.upstreams.exchange = slow  # type: ignore[method-assign]
    call = ("POST", "/files/", FORM) if direction == "up" else ("GET", f"/files/{new_id()}/download/", {})

    async def transfer() -> Any:
        return await public.client.request(call[0], call[1], **call[2])  # type: ignore[arg-type]

    tasks = [asyncio.create_task(transfer()) for _ in range(COMPANY_TRANSFERS)]
    async with asyncio.timeout(60):
        for _ in tasks:
            await held.acquire()
    refused = await transfer()
    assert (refused.status_code, error_of(refused)["type"]) == (429, "rate_limit_error")
    assert int(refused.headers["retry-after"]) >= 1
    ended.set()
    assert {response.status_code for response in await asyncio.gather(*tasks)} == {404}
