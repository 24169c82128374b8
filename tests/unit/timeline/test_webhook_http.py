"""Calls of webhooks on a real server: what is sent, what is kept of an answer, which addresses are refused."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from libs.outbound import AddressCheck, AddressRefused, UnusableUrl, is_public, parse_networks, public_or_within
from services.timeline.adapters.webhook_http import HttpWebhookClient
from services.timeline.domain.deliveries import Answer
from tests.support.webhook_receiver import Receiver, receiving

LOOPBACK = public_or_within(parse_networks("127.0.0.0/8"))
HEADERS = {"webhook-id": "1", "content-type": "application/json"}


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


@asynccontextmanager
async def opened(allowed: AddressCheck = LOOPBACK, *, seconds: float = 30) -> AsyncIterator[HttpWebhookClient]:
    client = HttpWebhookClient(allowed, seconds=seconds)
    yield client
    await client.close()


async def post(url: str, allowed: AddressCheck = LOOPBACK, *, seconds: float = 30) -> Answer:
    async with opened(allowed, seconds=seconds) as client:
        return await client.post(url, HEADERS, b'{"type": "x"}')


async def test_a_body_is_sent_as_it_is_and_the_answer_kept(receiver: Receiver) -> None:
    answer = await post(receiver.url())
    ((path, headers, body),) = receiver.received
    assert answer == Answer(200, "thanks")
    assert (path, body, headers["webhook-id"]) == ("/hook", b'{"type": "x"}', "1")
    assert headers["user-agent"] == "aes-webhooks"


async def test_connections_are_used_again(receiver: Receiver) -> None:
    async with opened() as client:
        for _ in range(3):
            assert (await client.post(receiver.url(), HEADERS, b"{}")).accepted
        assert len(client._session.connector._conns) == 1  # type: ignore[union-attr]


async def test_two_kilobytes_of_an_answer_are_kept(receiver: Receiver) -> None:
    receiver.answer = lambda _: web.Response(status=500, body=b"\xff" + b"x" * 5_000_000)
    answer = await post(receiver.url())
    assert answer.status == 500
    assert answer.text == "\ufffd" + "x" * 2047


async def test_redirects_are_not_followed(receiver: Receiver) -> None:
    receiver.answer = lambda _: web.Response(status=307, headers={"Location": receiver.url("/other")})
    answer = await post(receiver.url())
    assert (answer.status, answer.accepted) == (307, False)
    assert [path for path, _, _ in receiver.received] == ["/hook"]


async def test_a_receiver_that_hangs_has_its_time(receiver: Receiver) -> None:
    receiver.hanging.add("/hook")
    assert await post(receiver.url(), seconds=0.2) == Answer(None, "no response within 0.2 seconds")


async def test_an_answer_whose_body_comes_too_slowly_has_its_status(receiver: Receiver) -> None:
    receiver.answer = lambda _: web.Response(status=202, body=said_and_silent())
    answer = await post(receiver.url(), seconds=2)
    assert answer == Answer(202, "thanks")
    assert answer.accepted


async def said_and_silent() -> AsyncIterator[bytes]:
    yield b"thanks"
    await asyncio.Event().wait()


async def test_nobody_there_is_told(receiver: Receiver) -> None:
    answer = await post("http://127.0.0.1:1/")
    assert answer.status is None
    assert answer.text.startswith("the host can't be reached")
    unknown = await post("http://no-such-host.invalid/")
    assert unknown.status is None
    assert unknown.text.startswith("the host can't be reached")


async def test_private_addresses_are_refused_in_every_way(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [receiver.url(), f"http://localhost:{receiver.port}/", f"http://[::ffff:127.0.0.1]:{receiver.port}/"]
    places += ["http://169.254.169.254/latest", "http://10.0.0.1/"]
    for url in places:
        answer = await post(url, is_public)
        assert answer.status is None, url
        assert answer.text.startswith(("refused: ", "the host can't be reached")), url
    named = lambda host, port: ["93.184.216.34", "127.0.0.1"]  # noqa: E731
    monkeypatch.setattr("services.timeline.adapters.webhook_http._addresses", named)
    answer = await post(f"http://mixed.example:{receiver.port}/", is_public)
    assert answer == Answer(None, "refused: the host resolves to an address that isn't public")
    assert receiver.received == []


async def test_a_name_that_changes_its_address_is_looked_at_again(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    addresses = ["127.0.0.1"]
    monkeypatch.setattr("services.timeline.adapters.webhook_http._addresses", lambda host, port: addresses)
    url = f"http://rebound.example:{receiver.port}/hook"
    assert (await post(url)).accepted
    addresses[:] = ["169.254.169.254"]
    assert (await post(url)).text.startswith("refused")


@pytest.mark.parametrize("url", ["ftp://example.com/", "http://user:secret@example.com/", "nonsense", "http://[::1/"])
async def test_what_is_no_url_is_refused(url: str) -> None:
    assert (await post(url)).status is None
    async with opened(is_public) as client:
        with pytest.raises(UnusableUrl):
            await client.check(url)


async def test_refusals_are_found_without_calling(receiver: Receiver) -> None:
    async with opened(is_public) as client:
        for url in (receiver.url(), f"http://localhost:{receiver.port}/"):
            with pytest.raises(AddressRefused):
                await client.check(url)
    async with opened() as client:
        await client.check(receiver.url())
    assert receiver.received == []
