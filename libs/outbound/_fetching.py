"""Sends HTTP requests to user-supplied addresses and follows redirects."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
from yarl import URL

from libs.outbound._resolver import AddressRefused, GuardedResolver, UnusableUrl, parse_url

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_KEEP_METHOD: Final = frozenset({307, 308})
_OF_BODY: Final = frozenset({"content-type", "content-encoding", "content-language"})
_IDLE_SECONDS: Final = 15.0
_MOST_POOLS: Final = 200
Check = Callable[[URL], None]


class FetchRefused(Exception):
    """The address isn't allowed, or the response can't be used."""


class FetchFailed(FetchRefused):
    """The connection failed or timed out. ``sent`` is true if the target may have received the request."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """The limits of a request. Timeouts are in seconds.

    ``timeout`` covers all redirects, and ``connect`` applies to each connection. None means no timeout.
    """

    timeout: float | None = 15.0
    largest_bytes: int = 1024 * 1024
    redirects: int = 4
    connect: float | None = None


class GuardedHttp:
    """An HTTP client for user-supplied addresses. ``check`` can raise FetchRefused to reject more addresses."""

    def __init__(
        self, *, resolver: GuardedResolver, limits: FetchLimits, accept: str, check: Check | None = None
    ) -> None:
        self._resolver = resolver
        self._limits = limits
        self._accept = accept
        self._check = check
        self._pools = ConnectionPools(lambda: self._session(keep_alive=True))

    async def close(self) -> None:
        await self._pools.close()

    def get(self, address: str) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Sends a GET request and follows redirects. Raises FetchRefused and FetchFailed."""
        return self.request("GET", address)

    @asynccontextmanager
    async def request(
        self,
        method: str,
        address: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        pool: Hashable | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Sends a request and follows redirects. Raises FetchRefused and FetchFailed.

        Requests with the same ``pool`` reuse connections, and requests without a pool use new ones. If a reused
        connection turns out to be closed, the request is sent again, so only idempotent calls can use a pool.
        """
        sent = _Request(method, self._checked(address), dict(headers or {}), body)
        try:
            async with self._opened(pool) as session:
                for _ in range(self._limits.redirects + 1):
                    async with session.request(
                        sent.method, sent.url, headers=sent.headers, data=sent.body, allow_redirects=False
                    ) as response:
                        if response.status not in _REDIRECTS or "location" not in response.headers:
                            yield response
                            return
                        sent = sent.redirected(response.status, self._checked(response.headers["location"], sent.url))
            raise FetchRefused(f"more than {self._limits.redirects} redirects")
        except aiohttp.ConnectionTimeoutError as error:
            raise FetchFailed("the host didn't respond in time", sent=False) from error
        except TimeoutError as error:
            raise FetchFailed(f"no response within {self._limits.timeout or 0:g} seconds", sent=True) from error
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, AddressRefused):
                raise FetchRefused(f"refused: {error.os_error}") from error
            raise FetchFailed("the host can't be reached", sent=False) from error
        except aiohttp.ClientError as error:
            raise FetchFailed(f"the connection failed: {type(error).__name__}", sent=True) from error

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """Returns the whole body. Raises FetchRefused if the body is too large or compressed."""
        body, whole = await self.read_beginning(response)
        if not whole:
            raise FetchRefused(f"the content is larger than {self._limits.largest_bytes} bytes")
        return body

    async def read_beginning(self, response: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        """Returns the body up to the size limit, and whether it's complete. Raises FetchRefused if it's compressed."""
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise FetchRefused("the response is compressed, but only uncompressed responses are accepted")
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > self._limits.largest_bytes:
                return bytes(body[: self._limits.largest_bytes]), False
        return bytes(body), True

    def _opened(self, pool: Hashable | None) -> AbstractAsyncContextManager[aiohttp.ClientSession]:
        return self._session(keep_alive=False) if pool is None else self._pools.use(pool)

    def _session(self, *, keep_alive: bool) -> aiohttp.ClientSession:
        kept: dict[str, Any] = {"keepalive_timeout": _IDLE_SECONDS} if keep_alive else {"force_close": True}
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, limit=0, **kept),
            timeout=aiohttp.ClientTimeout(total=self._limits.timeout, sock_connect=self._limits.connect),
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


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: URL
    headers: dict[str, str]
    body: bytes | None

    def redirected(self, status: int, url: URL) -> _Request:
        """Returns the request after a redirect: GET or HEAD, unless the status is 307 or 308.

        A request to another origin keeps only the headers that describe the body.
        """
        method, headers, body = self.method, self.headers, self.body
        if status not in _KEEP_METHOD and method not in ("GET", "HEAD"):
            method, body = "GET", None
            headers = {name: value for name, value in headers.items() if name.lower() not in _OF_BODY}
        if url.origin() != self.url.origin():
            headers = {name: value for name, value in headers.items() if name.lower() in _OF_BODY}
        return _Request(method, url, headers, body)


@dataclass(slots=True)
class _Pool:
    session: aiohttp.ClientSession
    users: int = 0


class ConnectionPools:
    """Keeps a client session for each of the most recently used keys. A session in use is never closed."""

    def __init__(self, new_session: Callable[[], aiohttp.ClientSession], most: int = _MOST_POOLS) -> None:
        self._new_session = new_session
        self._most = most
        self._pools: OrderedDict[Hashable, _Pool] = OrderedDict()

    @asynccontextmanager
    async def use(self, key: Hashable) -> AsyncIterator[aiohttp.ClientSession]:
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = _Pool(self._new_session())
        self._pools.move_to_end(key)
        pool.users += 1
        try:
            yield pool.session
        finally:
            pool.users -= 1
            await self._close_surplus()

    async def close(self) -> None:
        while self._pools:
            _, pool = self._pools.popitem()
            await pool.session.close()

    async def _close_surplus(self) -> None:
        if len(self._pools) <= self._most:
            return
        oldest = next((key for key, pool in self._pools.items() if not pool.users), None)
        if oldest is not None:
            await self._pools.pop(oldest).session.close()
