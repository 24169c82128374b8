"""GET requests to addresses that users name, redirects included."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import aiohttp
from yarl import URL

from libs.outbound._resolver import AddressRefused, GuardedResolver, UnusableUrl, parse_url

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
            url = parse_url(address, base)
            if self._check is not None:
                self._check(url)
            self._resolver.check_literal(url)
        except UnusableUrl as error:
            raise FetchRefused(str(error)) from error
        except AddressRefused as error:
            raise FetchRefused(f"refused: {error}") from error
        return url
