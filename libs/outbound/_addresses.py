"""Decides which IP addresses can be connected to."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from typing import Final

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
IPNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network
AddressCheck = Callable[[str], bool]
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Returns whether an address is on the public internet. Also checks an IPv4 address embedded in an IPv6 address."""
    ip = _parsed(address)
    return ip is not None and ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


def public_or_within(networks: Sequence[IPNetwork]) -> AddressCheck:
    """Returns a check that accepts public addresses and those in ``networks``."""

    def check(address: str) -> bool:
        ip = _parsed(address)
        return is_public(address) or (ip is not None and any(ip in network for network in networks))

    return check if networks else is_public


def parse_networks(text: str) -> tuple[IPNetwork, ...]:
    """Parses comma-separated networks. A plain address is a network with a single address.

    Raises a ValueError that contains the invalid network.
    """
    found = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        try:
            found.append(ipaddress.ip_network(part))
        except ValueError as problem:
            raise ValueError(f"{part!r} isn't a network such as 10.1.0.0/16 or fd00::/8: {problem}") from None
    return tuple(found)


def is_literal(host: str) -> bool:
    return _parsed(host) is not None


def _parsed(address: str) -> IPAddress | None:
    try:
        ip: IPAddress = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address):
        wrapped = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if wrapped is None and ip in _NAT64:
            wrapped = ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
        return wrapped or ip
    return ip
