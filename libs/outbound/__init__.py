"""Connections to user-supplied addresses: on the public internet, or in networks that the operator allows."""

from libs.outbound._addresses import AddressCheck, is_public, parse_networks, public_or_within
from libs.outbound._fetching import FetchFailed, FetchLimits, FetchRefused, GuardedHttp
from libs.outbound._resolver import (
    USUAL_PORTS,
    AddressRefused,
    GuardedResolver,
    OutboundSettings,
    UnusableUrl,
    parse_url,
    system_resolve,
)

__all__ = [
    "USUAL_PORTS",
    "AddressCheck",
    "AddressRefused",
    "FetchFailed",
    "FetchLimits",
    "FetchRefused",
    "GuardedHttp",
    "GuardedResolver",
    "OutboundSettings",
    "UnusableUrl",
    "is_public",
    "parse_networks",
    "parse_url",
    "public_or_within",
    "system_resolve",
]
