"""Asks processes of the services for their readiness over HTTP."""

import asyncio
import socket
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import aiohttp
import orjson

from services.gateway.domain.masking import mask_text
from services.gateway.domain.operations import ReplicaHealth

# A process gives each of its checks three seconds.
_ANSWER_SECONDS: Final = 4.0
_RESOLVE_SECONDS: Final = 2.0
_MOST_BYTES: Final = 64 * 1024
_MOST_REPLICAS: Final = 50
_LONGEST_REASON: Final = 1000


class HttpServiceHealth:
    """A name that stands for several addresses, as of a scaled container, is asked at each of them."""

    def __init__(self, addresses: Sequence[tuple[str, str]]) -> None:
        """``addresses``: services with base URLs of their processes; a service may have several."""
        self._addresses = addresses
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def replicas(self) -> Sequence[ReplicaHealth]:
        found = await asyncio.gather(*(self._behind(service, url) for service, url in self._addresses))
        return [replica for group in found for replica in group]

    async def _behind(self, service: str, url: str) -> Sequence[ReplicaHealth]:
        targets = await _targets(url)
        return await asyncio.gather(*(self._ask(service, each) for each in targets[:_MOST_REPLICAS]))

    async def _ask(self, service: str, url: str) -> ReplicaHealth:
        address = urlsplit(url).netloc.rpartition("@")[2]
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await self._read(url)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as problem:
            reason = (
                "no answer in time" if isinstance(problem, TimeoutError) else str(problem) or type(problem).__name__
            )
            return ReplicaHealth(service=service, address=address, status="unreachable", reason=_shown_reason(reason))
        return _judged(service, address, answer)

    async def _read(self, url: str) -> Any:
        if self._session is None:
            # Not in the constructor: aiohttp ties a session to the running loop.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=100, force_close=True))
        async with self._session.get(f"{url.rstrip('/')}/health/ready", allow_redirects=False) as response:
            return orjson.loads(await response.content.read(_MOST_BYTES))


async def _targets(url: str) -> Sequence[str]:
    """The URL for each address of its host; itself with TLS, whose certificate is the name's, or if there is one."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return [url]
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(
                parts.hostname, parts.port or 80, family=socket.AF_INET, type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError):
        # Asking will say why.
        return [url]
    hosts = sorted({str(address[0]) for *_, address in found})
    return [url] if len(hosts) < 2 else [f"http://{host}:{parts.port or 80}" for host in hosts]


def _judged(service: str, address: str, answer: Any) -> ReplicaHealth:
    if not isinstance(answer, dict) or answer.get("service") != service:
        return ReplicaHealth(
            service=service, address=address, status="unreachable", reason="another program answers there"
        )
    checks = answer.get("checks")
    waiting = (
        [f"{name}: {state}" for name, state in checks.items() if state != "ok"] if isinstance(checks, dict) else []
    )
    is_ready = answer.get("status") == "ready"
    version = answer.get("version")
    return ReplicaHealth(
        service=service,
        address=address,
        status="ready" if is_ready else "not ready",
        version=version if isinstance(version, str) else None,
        reason="" if is_ready else _shown_reason("; ".join(waiting) or "it does not say why"),
    )


def _shown_reason(reason: str) -> str:
    return mask_text(reason)[:_LONGEST_REASON]
