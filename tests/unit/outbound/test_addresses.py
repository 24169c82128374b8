"""Addresses that may be called, and pools of connections to them."""

import asyncio

import aiohttp
import pytest
from pydantic import ValidationError
from yarl import URL

from libs.outbound import (
    AddressRefused,
    GuardedResolver,
    OutboundSettings,
    UnusableUrl,
    is_public,
    parse_networks,
    parse_url,
    public_or_within,
)
from libs.outbound._fetching import ConnectionPools


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
        "255.255.255.255", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "ff02::1",
        "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:db8::1", "2130706433", "x",
    ],
)  # fmt: skip
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.216.34", "8.8.8.8", "2606:4700:4700::1111", "64:ff9b::808:808"])
def test_addresses_that_are_public(address: str) -> None:
    assert is_public(address)


def test_networks_of_the_operator_are_allowed_besides_public_addresses() -> None:
    allowed = public_or_within(parse_networks("10.1.0.0/16, fd00::/8,127.0.0.1"))

    assert all(map(allowed, ["10.1.2.3", "::ffff:10.1.2.3", "fd00::1", "127.0.0.1", "8.8.8.8"]))
    assert not any(map(allowed, ["10.2.0.1", "127.0.0.2", "169.254.169.254", "::1", "x"]))


@pytest.mark.parametrize("text", ["10.1.2.3/16", "10.0.0.0/33", "example.com", "10.0.0.0/8;::1"])
def test_a_wrong_network_is_named_at_the_start(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AES_OUTBOUND_NETWORKS", f"127.0.0.0/8,{text}")

    with pytest.raises(ValidationError) as refused:
        OutboundSettings()

    (error,) = refused.value.errors()
    assert error["loc"] == ("AES_OUTBOUND_NETWORKS",)
    assert text in error["msg"]


async def test_a_host_with_one_address_that_is_not_allowed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return ["8.8.8.8", "10.1.2.3"]

    with pytest.raises(AddressRefused):
        await GuardedResolver(is_public, resolve).resolve("mixed.example", 443)
    monkeypatch.setenv("AES_OUTBOUND_NETWORKS", "10.1.0.0/16")
    found = await GuardedResolver(OutboundSettings().allowed_addresses(), resolve).resolve("mixed.example", 443)
    assert [each["host"] for each in found] == ["8.8.8.8", "10.1.2.3"]


def test_an_address_in_place_of_a_host_is_looked_at() -> None:
    resolver = GuardedResolver()
    for url in ("http://127.0.0.1/", "http://[::1]:8080/", "https://[fe80::1%25eth0]/"):
        with pytest.raises(AddressRefused):
            resolver.check_literal(URL(url))
    resolver.check_literal(URL("https://8.8.8.8/"))
    resolver.check_literal(URL("https://example.com/"))


@pytest.mark.parametrize(
    "address",
    [
        " https://example.com/",
        "https://example.com/\n",
        "https://exa mple.com/",
        "https://example.com/\r\nX-Header: 1",
        "https://example.com/\x7f",
        "https://example.com:0/",
        "https://user@example.com/",
        "file:///etc/passwd",
        "//example.com/",
    ],
)
def test_what_is_no_url_to_be_called(address: str) -> None:
    with pytest.raises(UnusableUrl):
        parse_url(address)


def test_spaces_of_a_redirect_are_quoted() -> None:
    assert str(parse_url("/a b", URL("https://example.com/"))) == "https://example.com/a%20b"


class Sessions:
    def __init__(self) -> None:
        self.made: list[aiohttp.ClientSession] = []

    def __call__(self) -> aiohttp.ClientSession:
        self.made.append(aiohttp.ClientSession())
        return self.made[-1]


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


async def test_a_key_has_one_session(sessions: Sessions) -> None:
    pools = ConnectionPools(sessions)

    async with pools.use("a") as first, pools.use("b") as other:
        assert first is not other
    async with pools.use("a") as again:
        assert again is first
    await pools.close()

    assert all(session.closed for session in sessions.made)


async def test_the_longest_unused_session_is_closed_and_none_in_use(sessions: Sessions) -> None:
    pools = ConnectionPools(sessions, most=2)

    async with pools.use("held") as held:
        for key in ("a", "b", "c"):
            async with pools.use(key):
                await asyncio.sleep(0)
        assert not held.closed
        assert [session.closed for session in sessions.made] == [False, True, True, False]
    await pools.close()
