"""Checks over HTTP whether every process of each service is ready."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import urlsplit

from libs.contracts.resources.operations import Replica
from libs.diagnostics import Health, ask_health
from services.gateway.domain.masking import mask_text

# A process gives each of its own checks three seconds, so its answer may take that long.
_ANSWER_SECONDS: Final = 4.0
_RESOLVE_SECONDS: Final = 2.0
_MOST_REPLICAS: Final = 50
_LONGEST_REASON: Final = 1000


async def read_replicas(addresses: Sequence[tuple[str, str]]) -> Mapping[str, Sequence[Replica]]:
    """Asks every process for its health, and returns the results by service.

    ``addresses``: pairs of a service and a base URL. If a URL's host name has several addresses, each is asked.
    """
    found = await asyncio.gather(*(_behind(service, url) for service, url in addresses))
    by_service: defaultdict[str, list[Replica]] = defaultdict(list)
    for (service, _), replicas in zip(addresses, found, strict=True):
        by_service[service] += replicas
    return by_service


async def _behind(service: str, url: str) -> Sequence[Replica]:
    targets = await _targets(url)
    return await asyncio.gather(*(_ask(service, each) for each in targets[:_MOST_REPLICAS]))


async def _ask(service: str, url: str) -> Replica:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            health = await ask_health(url, service)
    except TimeoutError:
        return _unreachable(url, "it didn't respond in time")
    except (OSError, ValueError) as problem:
        return _unreachable(url, str(problem) or type(problem).__name__)
    if health is None:
        return _unreachable(url, "another program responds at this address")
    return Replica(
        address=_address(url),
        status="ready" if health.is_ready else "not ready",
        version=health.version,
        reason="" if health.is_ready else _shown_reason(_waiting(health)),
    )


async def _targets(url: str) -> Sequence[str]:
    """Returns one URL per address of the host. HTTPS URLs stay unchanged, since certificates only cover host names."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname is None:
        return [url]
    try:
        async with asyncio.timeout(_RESOLVE_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(
                parts.hostname, parts.port or 80, family=socket.AF_INET, type=socket.SOCK_STREAM
            )
    except (OSError, TimeoutError):
        # The request to the unresolved URL will fail with the reason.
        return [url]
    hosts = sorted({str(address[0]) for *_, address in found})
    return [url] if len(hosts) < 2 else [f"http://{host}:{parts.port or 80}" for host in hosts]


def _unreachable(url: str, reason: str) -> Replica:
    return Replica(address=_address(url), status="unreachable", version=None, reason=_shown_reason(reason))


def _address(url: str) -> str:
    return urlsplit(url).netloc.rpartition("@")[2]


def _waiting(health: Health) -> str:
    return "; ".join(f"{name}: {state}" for name, state in health.waiting.items()) or "it gave no reason"


def _shown_reason(reason: str) -> str:
    return mask_text(reason)[:_LONGEST_REASON]
