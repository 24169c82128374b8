import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from yarl import URL

from libs.outbound import FetchLimits, GuardedResolver, is_public
from services.runtime.adapters.tools.http_get import HostList, HttpGet
from services.runtime.domain.tools import ToolContext, ToolFailed, cut_result
from tests.support.agent_fakes import CALLER

CONTEXT = ToolContext("call", "turn", "session", CALLER)
LIMITS = FetchLimits(timeout=60.0, largest_bytes=30_000, redirects=2)


class Site:
    """A web site on 127.0.0.1 that passes for the hosts that `names` resolve."""

    def __init__(self) -> None:
        self.port = 0
        self.asked: list[str] = []
        self.answers: dict[str, dict[str, Any]] = {}
        self.names: dict[str, list[str]] = {"good.example": ["127.0.0.1"], "other.example": ["127.0.0.1"]}
        self.resolved = 0

    async def handle(self, request: web.BaseRequest) -> web.Response:
        self.asked.append(f"{request.host.partition(':')[0]}{request.path}")
        if request.path == "/slow":
            await asyncio.Event().wait()
        return web.Response(**self.answers.get(request.path, {"text": "hello"}))

    async def resolve(self, host: str, _port: int) -> list[str]:
        self.resolved += 1
        if host not in self.names:
            raise OSError("no such host")
        return self.names[host]

    def url(self, path: str, host: str = "good.example") -> str:
        return f"http://{host}:{self.port}{path}"

    def tool(self, *, allowed: str | None = None, limits: FetchLimits = LIMITS, trust_loopback: bool = True) -> HttpGet:
        def reachable(address: str) -> bool:
            return is_public(address) or (trust_loopback and address == "127.0.0.1")

        resolver = GuardedResolver(reachable, self.resolve)
        return HttpGet([allowed or f"good.example:{self.port}"], resolver=resolver, limits=limits)

    async def get(self, path: str, **more: object) -> str:
        tool = self.tool(**more)  # type: ignore[arg-type]
        output = await tool.call({"url": self.url(path)}, CONTEXT)
        return cut_result(output.text, cut=output.cut)

    async def refused(self, path: str, problem: str, **more: object) -> None:
        with pytest.raises(ToolFailed, match=problem):
            await self.get(path, **more)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    yield site
    await runner.cleanup()


async def test_a_charset_that_no_web_page_has_is_taken_for_utf_8(site: Site) -> None:
    body = rb"+2AA- \ud800 caf-dma"
    for charset in ("punycode", "utf-7", "unicode_escape", "idna", "hex", "no-such"):
        site.answers["/odd"] = {"body": body, "headers": {"Content-Type": f"text/plain; charset={charset}"}}
        assert (await site.get("/odd")).endswith(body.decode()), charset


async def test_text_is_fetched(site: Site) -> None:
    assert await site.get("/page") == "200 text/plain\n\nhello"
    assert site.asked == ["good.example/page"]


async def test_without_allowed_hosts_it_is_off() -> None:
    with pytest.raises(ToolFailed, match="disabled"):
        await HttpGet([]).call({"url": "https://example.com/"}, CONTEXT)


async def test_other_hosts_are_refused(site: Site) -> None:
    for url, problem in (
        ("http://other.example/", "isn't on this service's allowlist"),
        ("http://good.example.evil.example/", "isn't on this service's allowlist"),
        ("http://good.example:22/", "isn't on this service's allowlist"),
        ("ftp://good.example/", "only http"),
        ("file:///etc/passwd", "only http"),
        ("good.example", "only http"),
        ("http://user:pass@good.example/", "user name or password"),
        ("http://good.example:99999/", "isn't a valid URL"),
    ):
        with pytest.raises(ToolFailed, match=problem):
            await site.tool(allowed="good.example").call({"url": url}, CONTEXT)
    assert (site.asked, site.resolved) == ([], 0)


async def test_private_addresses_are_refused_even_when_their_host_is_allowed(site: Site) -> None:
    refused = "refused: the host resolves to an address that isn't public"
    await site.refused("/", refused, trust_loopback=False)
    site.names["good.example"] = ["93.184.216.34", "10.0.0.1"]
    await site.refused("/", refused)
    for host in ("127.0.0.1", "[::1]"):
        tool = site.tool(allowed=f"{host.strip('[]')}:{site.port}", trust_loopback=False)
        with pytest.raises(ToolFailed, match="refused"):
            await tool.call({"url": site.url("/", host)}, CONTEXT)
    assert site.asked == []


async def test_the_address_that_was_checked_is_the_one_connected_to(site: Site) -> None:
    """A name that changes its address after the check (rebinding) is only ever resolved once per connection."""
    await site.get("/")
    assert site.resolved == 1
    site.names["good.example"] = ["169.254.169.254"]
    await site.refused("/", "refused")


async def test_redirects_are_followed_within_the_allowed_hosts(site: Site) -> None:
    site.answers["/old"] = {"status": 302, "headers": {"Location": "/new"}}
    assert await site.get("/old") == "200 text/plain\n\nhello"
    assert site.asked == ["good.example/old", "good.example/new"]


async def test_a_redirect_elsewhere_is_refused(site: Site) -> None:
    for target in (site.url("/", "other.example"), "http://169.254.169.254/latest", "file:///etc/passwd"):
        site.answers["/old"] = {"status": 302, "headers": {"Location": target}}
        await site.refused("/old", "isn't on this service's allowlist|only http")
    assert set(site.asked) == {"good.example/old"}


async def test_redirects_are_bounded(site: Site) -> None:
    site.answers["/loop"] = {"status": 302, "headers": {"Location": "/loop"}}
    await site.refused("/loop", "more than 2 redirects")
    assert len(site.asked) == 3


async def test_size_is_bounded(site: Site) -> None:
    site.answers["/long"] = {"text": "x" * 25_000}
    assert (await site.get("/long")).endswith("x\n[truncated: 25016 characters in total]")
    site.answers["/huge"] = {"text": "x" * 29_999 + "ü" * 10}
    assert (await site.get("/huge")).endswith("x\n[truncated: more than 30015 characters in total]")


async def test_what_cannot_be_read_is_told(site: Site) -> None:
    bomb = gzip.compress(b"0" * 500_000)
    site.answers["/bomb"] = {"body": bomb, "headers": {"Content-Encoding": "gzip", "Content-Type": "text/plain"}}
    site.answers["/picture"] = {"body": b"\x89PNG", "content_type": "image/png"}
    site.answers["/gone"] = {"status": 404, "text": "no such page"}
    await site.refused("/bomb", "compressed")
    await site.refused("/slow", "no response within", limits=FetchLimits(timeout=0.05))
    await site.refused("/picture", "image/png, not text")
    await site.refused("/gone", "status 404: no such page")
    site.names.clear()
    await site.refused("/", "can't be reached")


def test_host_lists() -> None:
    hosts = HostList(["Example.com", "*.wild.org", "api.example.net:8443", " "])
    for allowed in (
        "https://example.com",
        "http://EXAMPLE.COM.:80",
        "https://a.b.wild.org",
        "https://api.example.net:8443",
    ):
        assert hosts.allows(URL(allowed))
    for other in ("sub.example.com", "wild.org", "api.example.net", "example.com:8080"):
        assert not hosts.allows(URL(f"https://{other}"))
    assert not HostList([])
