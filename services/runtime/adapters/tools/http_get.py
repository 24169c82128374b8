"""The `http_get` tool: reads text from hosts that the operator allows."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from dataclasses import dataclass

import aiohttp
from yarl import URL

from services.runtime.adapters.guarded_http import USUAL_PORTS, FetchLimits, FetchRefused, GuardedHttp
from services.runtime.adapters.tools.addresses import GuardedResolver, HostList
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput

_TEXT_TYPES = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
# Of Python's codecs: those that take minutes, or give text that UTF-8 cannot carry.
_NO_WEB_CHARSETS = frozenset({"punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape"})


@dataclass(frozen=True, slots=True)
class HttpLimits(FetchLimits):
    """`longest_text` in characters, the rest is cut."""

    longest_text: int = 20_000


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
        self._limits = limits or HttpLimits()
        self._http = GuardedHttp(
            resolver=resolver or GuardedResolver(),
            limits=self._limits,
            accept="text/*, application/json;q=0.9",
            check=self._require_allowed,
        )

    async def call(self, arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        if not self._hosts:
            raise ToolFailed("http_get is switched off: this service allows no hosts")
        try:
            async with self._http.get(arguments["url"]) as response:
                return ToolOutput(await self._read(response))
        except FetchRefused as error:
            raise ToolFailed(str(error)) from error

    def _require_allowed(self, url: URL) -> None:
        host, port = url.host or "", url.port or 0
        if (host, port, port == USUAL_PORTS[url.scheme]) not in self._hosts:
            raise FetchRefused(f"host {host[:200]!r} is not among the hosts that this service allows")

    async def _read(self, response: aiohttp.ClientResponse) -> str:
        kind = response.content_type
        if not (kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml"))):
            raise ToolFailed(f"status {response.status}, but the content is {kind}, not text")
        text = _decoded(await self._http.read(response), response.charset)
        if len(text) > self._limits.longest_text:
            text = text[: self._limits.longest_text] + f"\n[cut: {len(text)} characters in all]"
        if response.status >= 400:
            raise ToolFailed(f"status {response.status}: {text[:500]}")
        return f"{response.status} {kind}\n\n{text}"


def _decoded(body: bytes, charset: str | None) -> str:
    try:
        if charset is not None and codecs.lookup(charset).name in _NO_WEB_CHARSETS:
            charset = None
        return body.decode(charset or "utf-8", errors="replace")
    except LookupError:
        return body.decode("utf-8", errors="replace")
