"""The `http_get` tool: reads text from hosts that the operator allows."""

from __future__ import annotations

import codecs
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp
from yarl import URL

from services.runtime.adapters.tools.addresses import AddressRefused, GuardedResolver, HostList
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput

_USUAL_PORTS = {"http": 80, "https": 443}
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
# Of Python's codecs: those that take minutes, or give text that UTF-8 cannot carry.
_NO_WEB_CHARSETS = frozenset({"punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape"})


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """`timeout` in seconds, over all redirects; `longest_text` in characters, the rest is cut."""

    timeout: float = 15.0
    largest_bytes: int = 1024 * 1024
    longest_text: int = 20_000
    redirects: int = 4


class HttpGet:
    definition = ToolDefinition(
        name="http_get",
        description="Fetches a web page or API answer as text, from the hosts that this service allows.",
        parameters={
            "type": "object",
            "properties": {"url": {"type": "string", "minLength": 1, "maxLength": 2000}},
            "required": ["url"],
            "additionalProperties": False,
        },
        safe_to_repeat=True,
        timeout_seconds=20.0,
    )

    def __init__(
        self,
        allowed_hosts: Iterable[str],
        *,
        resolver: GuardedResolver | None = None,
        limits: HttpLimits | None = None,
    ) -> None:
        self._hosts = HostList(allowed_hosts)
        self._resolver = resolver or GuardedResolver()
        self._limits = limits or HttpLimits()

    async def call(self, arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        if not self._hosts:
            raise ToolFailed("http_get is switched off: this service allows no hosts")
        try:
            return ToolOutput(await self._fetch(arguments["url"]))
        except TimeoutError as error:
            raise ToolFailed(f"no answer within {self._limits.timeout:g} seconds") from error
        except aiohttp.ClientConnectorError as error:
            refused = isinstance(error.os_error, AddressRefused)
            raise ToolFailed(f"refused: {error.os_error}" if refused else "the host cannot be reached") from error
        except aiohttp.ClientError as error:
            raise ToolFailed(f"the connection failed: {type(error).__name__}") from error

    async def _fetch(self, address: str) -> str:
        timeout = aiohttp.ClientTimeout(total=self._limits.timeout)
        # A connection per call: a kept one would skip the check of the address.
        connector = aiohttp.TCPConnector(resolver=self._resolver, use_dns_cache=False, force_close=True)
        headers = {
            "Accept": "text/*, application/json;q=0.9",
            "Accept-Encoding": "identity",
            "User-Agent": "aes",
        }
        async with aiohttp.ClientSession(
            connector=connector,
            timeout=timeout,
            headers=headers,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        ) as session:
            url = self._checked(address)
            for _ in range(self._limits.redirects + 1):
                async with session.get(url, allow_redirects=False) as response:
                    if response.status not in _REDIRECTS or "location" not in response.headers:
                        return await self._read(response)
                    url = self._checked(response.headers["location"], url)
        raise ToolFailed(f"more than {self._limits.redirects} redirects")

    def _checked(self, address: str, base: URL | None = None) -> URL:
        try:
            url = base.join(URL(address)) if base is not None else URL(address)
            port = url.port
        except ValueError as error:
            raise ToolFailed("this is not a valid URL") from error
        if url.scheme not in _USUAL_PORTS or not url.host or port is None:
            raise ToolFailed("only http:// and https:// URLs can be fetched")
        if url.user or url.password:
            raise ToolFailed("a URL with a user name or password is refused")
        if (url.host, port, port == _USUAL_PORTS[url.scheme]) not in self._hosts:
            raise ToolFailed(f"host {url.host[:200]!r} is not among the hosts that this service allows")
        if _is_literal(url.host):
            # aiohttp asks no resolver about an address that is written out.
            try:
                self._resolver.require(url.host)
            except AddressRefused as error:
                raise ToolFailed(f"refused: {error}") from error
        return url

    async def _read(self, response: aiohttp.ClientResponse) -> str:
        kind = response.content_type
        if not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))):
            raise ToolFailed(f"status {response.status}, but the content is {kind}, not text")
        if response.headers.get("content-encoding", "identity").lower() != "identity":
            raise ToolFailed("the content is compressed although it was asked for plain")
        body = bytearray()
        async for piece in response.content.iter_any():
            body += piece
            if len(body) > self._limits.largest_bytes:
                raise ToolFailed(f"the content is larger than {self._limits.largest_bytes} bytes")
        text = _decoded(bytes(body), response.charset)
        if len(text) > self._limits.longest_text:
            text = text[: self._limits.longest_text] + f"\n[cut: {len(text)} characters in all]"
        if response.status >= 400:
            raise ToolFailed(f"status {response.status}: {text[:500]}")
        return f"{response.status} {kind}\n\n{text}"


def _is_literal(host: str) -> bool:
    try:
        ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        if charset is not None and codecs.lookup(charset).name in _NO_WEB_CHARSETS:
            charset = None
        return body.decode(charset or "utf-8", errors="replace")
    except LookupError:
        return body.decode("utf-8", errors="replace")
