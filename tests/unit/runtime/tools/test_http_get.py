import asyncio
import gzip
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from libs.outbound import GuardedResolver, is_public
from services.runtime.adapters.tools.http_get import HostList, HttpGet, HttpLimits
from services.runtime.domain.tools import ToolContext, ToolFailed
from tests.support.agent_fakes import CALLER

CONTEXT = ToolContext("call", "turn", "session", CALLER)
LIMITS = HttpLimits(timeout=60.0, largest_bytes=1000, longest_text=100, redirects=2)


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

    def tool(self, *, allowed: str | None = None, limits: HttpLimits = LIMITS, trust_loopback: bool = True) -> HttpGet:
        def reachable(address: str) -> bool:
            return is_public(address) or (trust_loopback and address == "127.0.0.1")

        resolver = GuardedResolver(reachable, self.resolve)
        return HttpGet([allowed or f"good.example:{self.port}"], resolver=resolver, limits=limits)

    async def get(self, path: str, **more: object) -> str:
        tool = self.tool(**more)  # type: ignore[arg-type]
        return (await tool.call({"url": self.url(path)}, CONTEXT)).text


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    runner = web.ServerRunner(web.Server(site.handle), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    site.port = runner.addresses[0][1]
    yield site
    await runner.cleanup()


@pytest.mark.parametrize("charset", ["punycode", "utf-7", "unicode_escape", "idna", "hex", "no-such"])
async def test_a_charset_that_no_web_page_has_is_taken_for_utf_8(site: Site, charset: str) -> None:
    body = rb"+2AA- \ud800 caf-dma"
    site.answers["/odd"] = {"body": body, "headers": {"Content-Type": f"text/plain; charset={charset}"}}
    assert (await site.get("/odd")).endswith(body.decode())


async def test_text_is_fetched(site: Site) -> None:
    assert await site.get("/page") == "200 text/plain\n\nhello"
    assert site.asked == ["good.example/page"]


async def test_without_allowed_hosts_it_is_off() -> None:
    with pytest.raises(ToolFailed, match="disabled"):
        await HttpGet([]).call({"url": "https://example.com/"}, CONTEXT)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://other.example/", "isn't on this service's allowlist"),
        ("http://good.example.evil.example/", "isn't on this service's allowlist"),
        ("http://good.example:22/", "isn't on this service's allowlist"),
        ("ftp://good.example/", "only http"),
        ("file:///etc/passwd", "only http"),
        ("good.example", "only http"),
        ("http://user:pass@good.example/", "user name or password"),
        ("http://good.example:99999/", "isn't a valid URL"),
    ],
)
async def test_other_hosts_are_refused(site: Site, url: str, problem: str) -> None:
    with pytest.raises(ToolFailed, match=problem):
        await site.tool(allowed="good.example").call({"url": url}, CONTEXT)
    assert site.asked == []
    assert site.resolved == 0


async def test_an_allowed_name_with_a_private_address_is_refused(site: Site) -> None:
    with pytest.raises(ToolFailed, match="refused: the host resolves to an address that isn't public"):
        await site.get("/", trust_loopback=False)
    assert site.asked == []


async def test_one_private_address_among_public_ones_is_refused(site: Site) -> None:
    site.names["good.example"] = ["93.184.216.34", "10.0.0.1"]
    with pytest.raises(ToolFailed, match="refused"):
        await site.get("/")


async def test_a_private_address_written_out_is_refused_even_when_allowed(site: Site) -> None:
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
    with pytest.raises(ToolFailed, match="refused"):
        await site.get("/")


async def test_redirects_are_followed_within_the_allowed_hosts(site: Site) -> None:
    site.answers["/old"] = {"status": 302, "headers": {"Location": "/new"}}
    assert await site.get("/old") == "200 text/plain\n\nhello"
    assert site.asked == ["good.example/old", "good.example/new"]


async def test_a_redirect_elsewhere_is_refused(site: Site) -> None:
    for target in (site.url("/", "other.example"), "http://169.254.169.254/latest", "file:///etc/passwd"):
        site.answers["/old"] = {"status": 302, "headers": {"Location": target}}
        with pytest.raises(ToolFailed, match=r"isn't on this service's allowlist|only http"):
            await site.get("/old")
    assert set(site.asked) == {"good.example/old"}


async def test_redirects_are_bounded(site: Site) -> None:
    site.answers["/loop"] = {"status": 302, "headers": {"Location": "/loop"}}
    with pytest.raises(ToolFailed, match="more than 2 redirects"):
        await site.get("/loop")
    assert len(site.asked) == 3


async def test_size_is_bounded(site: Site) -> None:
    site.answers["/long"] = {"text": "x" * 900}
    assert (await site.get("/long")).endswith("x\n[truncated: 900 characters in total]")
    site.answers["/huge"] = {"text": "x" * 999 + "ü" * 10}
    assert (await site.get("/huge")).endswith("x\n[truncated: more than 999 characters in total]")


async def test_compressed_content_is_refused(site: Site) -> None:
    bomb = gzip.compress(b"0" * 500_000)
    site.answers["/bomb"] = {"body": bomb, "headers": {"Content-Encoding": "gzip", "Content-Type": "text/plain"}}
    with pytest.raises(ToolFailed, match="compressed"):
        await site.get("/bomb")


async def test_time_is_bounded(site: Site) -> None:
    with pytest.raises(ToolFailed, match="no response within"):
        await site.get("/slow", limits=HttpLimits(timeout=0.05))


async def test_only_text_is_read(site: Site) -> None:
    site.answers["/picture"] = {"body": b"\x89PNG", "content_type": "image/png"}
    with pytest.raises(ToolFailed, match="image/png, not text"):
        await site.get("/picture")


async def test_error_answers_and_unknown_hosts_are_told(site: Site) -> None:
    site.answers["/gone"] = {"status": 404, "text": "no such page"}
    with pytest.raises(ToolFailed, match="status 404: no such page"):
        await site.get("/gone")
    site.names.clear()
    with pytest.raises(ToolFailed, match="can't be reached"):
        await site.get("/")


def test_host_lists() -> None:
    hosts = HostList(["Example.com", "*.wild.org", "api.example.net:8443", " "])
    assert ("example.com", 443, True) in hosts
    assert ("EXAMPLE.COM.", 80, True) in hosts
    assert ("sub.example.com", 443, True) not in hosts
    assert ("example.com", 8080, False) not in hosts
    assert ("a.b.wild.org", 443, True) in hosts
    assert ("wild.org", 443, True) not in hosts
    assert ("api.example.net", 8443, False) in hosts
    assert ("api.example.net", 443, True) not in hosts
    assert not HostList([])
