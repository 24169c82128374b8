"""The `http_get` tool, which reads text from hosts that the operator allows."""

from collections.abc import Iterable

import aiohttp
from yarl import URL

from libs.outbound import FetchLimits, FetchRefused, GuardedHttp, GuardedResolver
from services.runtime.adapters.tools.answer_text import decoded, is_text
from services.runtime.domain.conversation import JsonObject
from services.runtime.domain.tools import ToolContext, ToolDefinition, ToolFailed, ToolOutput, object_schema


class HostList:
    """An allowlist of hosts. `*.example.com` allows all subdomains, and an entry may include a `:port`."""

    def __init__(self, entries: Iterable[str]) -> None:
        self._entries = frozenset(entry.strip().lower().rstrip(".") for entry in entries if entry.strip())

    def __bool__(self) -> bool:
        return bool(self._entries)

    def allows(self, url: URL) -> bool:
        """Returns whether the URL's host is allowed. An entry without a port allows the default port."""
        host, usual_port = (url.host or "").lower().rstrip("."), url.is_default_port()
        labels = host.split(".")
        names = [host, *("*." + ".".join(labels[depth:]) for depth in range(1, len(labels)))]
        return any(f"{name}:{url.port}" in self._entries or (usual_port and name in self._entries) for name in names)


class HttpGet:
    definition = ToolDefinition(
        name="http_get",
        description="Fetches a web page or API response as text. The host must be one that this service allows.",
        parameters=object_schema(["url"], url={"type": "string", "minLength": 1, "maxLength": 2000}),
        safe_to_repeat=True,
        timeout_seconds=20.0,
    )

    def __init__(
        self,
        allowed_hosts: Iterable[str],
        *,
        resolver: GuardedResolver | None = None,
        limits: FetchLimits | None = None,
    ) -> None:
        self._hosts = HostList(allowed_hosts)
        self._http = GuardedHttp(
            resolver=resolver or GuardedResolver(),
            limits=limits or FetchLimits(),
            accept="text/*, application/json;q=0.9",
            check=self._require_allowed,
        )

    async def call(self, arguments: JsonObject, _context: ToolContext, /) -> ToolOutput:
        if not self._hosts:
            raise ToolFailed("http_get is disabled because this service doesn't allow any hosts")
        try:
            async with self._http.get(arguments["url"]) as response:
                return await self._read(response)
        except FetchRefused as error:
            raise ToolFailed(str(error)) from error

    def _require_allowed(self, url: URL) -> None:
        if not self._hosts.allows(url):
            raise FetchRefused(f"host {(url.host or '')[:200]!r} isn't on this service's allowlist")

    async def _read(self, response: aiohttp.ClientResponse) -> ToolOutput:
        kind = response.content_type
        if not is_text(kind):
            raise ToolFailed(f"status {response.status}, but the content is {kind}, not text")
        body, whole = await self._http.read_beginning(response)
        text = decoded(body, response.charset, cut=not whole)
        if response.status >= 400:
            raise ToolFailed(f"status {response.status}: {text[:500]}")
        return ToolOutput(f"{response.status} {kind}\n\n{text}", cut=not whole)
