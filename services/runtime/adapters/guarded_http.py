"""GET requests to addresses that users name: to public ones only, redirects included."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class AddressRefused(OSError):
    """The host leads to an address that is not on the public internet."""


def is_public(address: str) -> bool:
    """Whether an address is on the public internet, also when an IPv6 form wraps an IPv4 one."""
    try:
        ip: IPAddress = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address):
        wrapped = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if wrapped is None and ip in _NAT64:
            wrapped = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        if wrapped is not None:
            ip = wrapped
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


async def system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedResolver(AbstractResolver):
    """Resolves for aiohttp and refuses a host with any address that is not allowed.

    aiohttp connects to exactly the addresses returned here, so no name is rebound between check and use.
    """

    def __init__(self, allowed: Callable[[str], bool] = is_public, resolve: Resolve = system_resolve) -> None:
        self._allowed = allowed
        self._resolve = resolve

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_UNSPEC,  # noqa: ARG002
    ) -> list[ResolveResult]:
        addresses = await self._resolve(host, port)
        for address in addresses:
            self.require(address)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    def require(self, address: str) -> None:
        """Raises AddressRefused."""
        if not self._allowed(address):
            raise AddressRefused("the host leads to an address that is not public")

    async def close(self) -> None:
        pass


USUAL_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
Check = Callable[[URL], None]


class FetchRefused(Exception):
    """The address may not be fetched, or the answer is unusable; the message tells why."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`timeout` in seconds, over all redirects."""

    timeout: float = 15.0
    largest_bytes: int = 1024 * 1024
    redirects: int = 4


class GuardedHttp:
    """`check` may refuse further addresses by raising FetchRefused."""

    def __init__(
        self, *, resolver: GuardedResolver, limits: FetchLimits, accept: str, check: Check | None = None
    ) -> None:
        self._resolver = resolver
        self._limits = limits
        self._accept = accept
        self._check = check

    @asynccontextmanager
    async def get(self, address: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """The first answer that is no redirect. Raises FetchRefused, also for a server that cannot be reached."""
        try:
            async with self._session() as session:
                url = self._checked(address)
                for _ in range(self._limits.redirects + 1):
                    async with session.get(url, allow_redirects=False) as response:
                        if response.status not in _REDIRECTS or "location" not in response.headers:
                            yield response
                            return
                        url = self._checked(response.headers["location"], url)
            raise FetchRefused(f"more than {self._limits.redirects} redirects")
        except TimeoutError as error:
            raise FetchRefused(f"no answer within {self._limits.timeout:g} seconds") from error
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, AddressRefused)
            raise FetchRefused(f"refused: {error.os_error}" if refused else "the host cannot be reached") from error
        except aiohttp.ClientError as error:
            raise FetchRefused(f"the connection failed: {type(error).__name__}") from error

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """The whole body. Raises FetchRefused for one that is too large, or compressed, which hides its size."""
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise FetchRefused("the content is compressed although it was asked for plain")
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > self._limits.largest_bytes:
                raise FetchRefused(f"the content is larger than {self._limits.largest_bytes} bytes")
        return bytes(body)

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            # A connection per call: a pooled one would skip the check of the address.
            connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, force_close=True),
            timeout=aiohttp.ClientTimeout(total=self._limits.timeout),
            headers={"Accept": self._accept, "Accept-Encoding": "identity", "User-Agent": "aes"},
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    def _checked(self, address: str, base: URL | None = None) -> URL:
        try:
            url = base.join(URL(address)) if base is not None else URL(address)
            port = url.port
        except ValueError as error:
            raise FetchRefused("this is not a valid URL") from error
        if url.scheme not in USUAL_PORTS or not url.host or port is None:
            raise FetchRefused("only http:// and https:// URLs can be fetched")
        if url.user or url.password:
            raise FetchRefused("a URL with a user name or password is refused")
        if self._check is not None:
            self._check(url)
        if _is_literal(url.host):
            # aiohttp asks no resolver about a literal address.
            try:
                self._resolver.require(url.host)
            except AddressRefused as error:
                raise FetchRefused(f"refused: {error}") from error
        return url


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
