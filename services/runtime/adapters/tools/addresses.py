"""Which hosts and addresses `http_get` may reach."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

from aiohttp.abc import AbstractResolver, ResolveResult

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


class HostList:
    """Hosts as settings name them: `example.com`, `*.example.com` (its subdomains), either with `:port`."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = frozenset(entry.strip().lower().rstrip(".") for entry in entries if entry.strip())

    def __bool__(self) -> bool:
        return bool(self._entries)

    def __contains__(self, place: tuple[str, int, bool]) -> bool:
        """Whether (host, port, port is its scheme's own) is named; another port must be named with it."""
        host, port, usual_port = place
        host = host.lower().rstrip(".")
        labels = host.split(".")
        names = [host, *("*." + ".".join(labels[depth:]) for depth in range(1, len(labels)))]
        return any(f"{name}:{port}" in self._entries or (usual_port and name in self._entries) for name in names)
