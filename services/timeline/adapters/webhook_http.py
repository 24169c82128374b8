"""Calls webhook endpoints, but only at public addresses. Redirects aren't followed."""

import asyncio
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import aiohttp

from libs.outbound import AddressCheck, AddressRefused, GuardedResolver, UnusableUrl, parse_url
from services.timeline.domain.deliveries import ATTEMPT_SECONDS, LONGEST_RESPONSE, Answer

# DNS lookups can't be cancelled, and those that never finish mustn't block others.
_LOOKUPS: Final = 64
_NAMES_SECONDS: Final = 10
_IDLE_SECONDS: Final = 30.0
_HEADERS: Final = {"User-Agent": "aes-webhooks", "Accept-Encoding": "identity"}


class HttpWebhookClient:
    """Sends deliveries over reused connections. An endpoint's address is checked whenever a connection is opened."""

    def __init__(self, allowed: AddressCheck, *, seconds: float = ATTEMPT_SECONDS) -> None:
        self._threads = ThreadPoolExecutor(_LOOKUPS, thread_name_prefix="webhook-names")
        self._resolver = GuardedResolver(allowed, self._resolve)
        self._seconds = seconds
        self._session: aiohttp.ClientSession | None = None

    async def check(self, url: str) -> None:
        await self._resolver.check(url)

    async def post(self, url: str, headers: Mapping[str, str], body: bytes) -> Answer:
        try:
            target = parse_url(url)
            self._resolver.check_literal(target)
            async with self._opened().post(target, data=body, headers=headers, allow_redirects=False) as response:
                return Answer(response.status, await _beginning(response))
        except TimeoutError:
            return Answer(None, f"no response within {self._seconds:g} seconds")
        except (UnusableUrl, AddressRefused) as problem:
            return Answer(None, f"refused: {problem}")
        except aiohttp.ClientConnectorError as problem:
            if isinstance(problem.os_error, AddressRefused):
                return Answer(None, f"refused: {problem.os_error}")
            return Answer(None, f"the host can't be reached: {problem.os_error.strerror or type(problem).__name__}")
        except (aiohttp.ClientError, OSError, ValueError) as problem:
            return Answer(None, f"the connection failed: {type(problem).__name__}")

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                resolver=self._resolver,
                ttl_dns_cache=_NAMES_SECONDS,
                # Unlimited here, since the worker's permits limit the number of attempts.
                limit=0,
                keepalive_timeout=_IDLE_SECONDS,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=self._seconds),
                headers=_HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._session

    async def _resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _addresses, host, port)
        return list(dict.fromkeys(found))


def _addresses(host: str, port: int) -> list[str]:
    return [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


async def _beginning(response: aiohttp.ClientResponse) -> str:
    """Returns the first bytes of a response as text. Closes the connection if the rest is long or slow."""
    body = bytearray()
    try:
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > LONGEST_RESPONSE:
                response.close()
                break
    except (TimeoutError, aiohttp.ClientError):
        response.close()
    return bytes(body[:LONGEST_RESPONSE]).decode(errors="replace")
