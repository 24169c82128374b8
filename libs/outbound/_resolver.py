"""Resolves host names for aiohttp and rejects forbidden addresses, with the setting that allows private networks."""

from __future__ import annotations

import asyncio
import socket
import unicodedata
from collections.abc import Awaitable, Callable

from aiohttp.abc import AbstractResolver, ResolveResult
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings
from yarl import URL

from libs.outbound._addresses import AddressCheck, is_literal, is_public, parse_networks, public_or_within

Resolve = Callable[[str, int], Awaitable[list[str]]]
_RESOLVE_SECONDS = 2.0
USUAL_PORTS = {"http": 80, "https": 443}


class AddressRefused(OSError):
    """The host resolves to an address that isn't on the public internet or in an allowed network."""


class UnusableUrl(ValueError):
    """The URL can't be called."""


def parse_url(address: str, base: URL | None = None) -> URL:
    """Parses an http or https URL, which can be relative to ``base``. Raises UnusableUrl."""
    # The parser silently drops or quotes these, so the called URL would differ from the stored one. Redirects may
    # contain spaces.
    if base is None and any(character.isspace() or unicodedata.category(character) == "Cc" for character in address):
        raise UnusableUrl("a URL can't contain spaces, line breaks or control characters")
    try:
        url = base.join(URL(address)) if base is not None else URL(address)
        port = url.port
    except ValueError as error:
        raise UnusableUrl("this isn't a valid URL") from error
    if url.scheme not in USUAL_PORTS or not url.host or not port:
        raise UnusableUrl("only http:// and https:// URLs can be called")
    if url.user or url.password:
        raise UnusableUrl("a URL can't contain a user name or password")
    return url


async def system_resolve(host: str, port: int) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class GuardedResolver(AbstractResolver):
    """Resolves host names. Rejects a host if any of its addresses is forbidden.

    aiohttp connects to exactly the returned addresses, which prevents DNS rebinding. aiohttp doesn't resolve literal
    addresses, so ``check_literal`` checks those.
    """

    def __init__(self, allowed: AddressCheck = is_public, resolve: Resolve = system_resolve) -> None:
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

    async def refusal(self, address: str) -> str | None:
        """Returns the reason why this URL can't be called, or None. Doesn't call the URL."""
        try:
            await self.check(address)
        except (AddressRefused, UnusableUrl) as problem:
            return str(problem)
        return None

    async def check(self, address: str) -> None:
        """Raises UnusableUrl or AddressRefused if this URL can't be called. Doesn't call the URL.

        Accepts a host that can't be resolved, since another process may be able to resolve it.
        """
        url = parse_url(address)
        self.check_literal(url)
        if is_literal(url.host or ""):
            return
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                await self.resolve(url.host or "", url.port or 0)
        except AddressRefused:
            raise
        except (OSError, UnicodeError):
            return

    def check_literal(self, url: URL) -> None:
        """Raises AddressRefused if the host is a forbidden literal address."""
        if url.host is not None and is_literal(url.host):
            self.require(url.host)

    def require(self, address: str) -> None:
        """Raises AddressRefused if the address is forbidden."""
        if not self._allowed(address):
            raise AddressRefused("the host resolves to an address that isn't public")

    async def close(self) -> None:
        pass


class OutboundSettings(BaseSettings):
    """A mixin for the settings of services that call user-supplied addresses."""

    outbound_networks: str = Field(
        "",
        validation_alias="AES_OUTBOUND_NETWORKS",
        description="Private networks that user-supplied URLs can point to, such as `10.20.0.0/16,fd12::/16`.",
    )

    @field_validator("outbound_networks")
    @classmethod
    def _networks(cls, text: str) -> str:
        parse_networks(text)
        return text

    def allowed_addresses(self) -> AddressCheck:
        return public_or_within(parse_networks(self.outbound_networks))

    def guarded_resolver(self) -> GuardedResolver:
        return GuardedResolver(self.allowed_addresses())
