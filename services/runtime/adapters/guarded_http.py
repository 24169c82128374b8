"""GET requests that a user names the address of: to public addresses only, redirects included."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from services.runtime.adapters.tools.addresses import AddressRefused, GuardedResolver

USUAL_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
Check = Callable[[URL], None]


class FetchRefused(Exception):
    """The address may not be fetched, or what answered is not what was asked for; the message says why."""


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """`timeout` in seconds, over all redirects."""

    timeout: float = 15.0
    largest_bytes: int = 1024 * 1024
    redirects: int = 4


class GuardedHttp:
    """`check` may refuse further addresses, for who allows only some; it raises FetchRefused."""

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
            # A connection per call: a kept one would skip the check of the address.
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
            # aiohttp asks no resolver about an address that is written out.
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
