"""One operation of an OpenAPI document: its name, and where it is called."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin

from libs.confined import JobRefused
from services.runtime.adapters.tools.toolsets.openapi.document import Document
from services.runtime.domain.conversation import JsonObject


@dataclass(frozen=True, slots=True)
class Target:
    """The place where operations are called. `headers`: those that every request gets, which are no arguments then."""

    base_url: str | None = None
    document_url: str | None = None
    headers: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """`item` is the path's object, which holds what its operations share."""

    document: Document
    method: str
    path: str
    item: JsonObject
    raw: JsonObject

    @property
    def label(self) -> str:
        return f"{self.method.upper()} {self.path}"

    @property
    def id(self) -> str | None:
        found = self.raw.get("operationId")
        return found if isinstance(found, str) and found.strip() else None

    @property
    def safe(self) -> bool:
        return self.method in ("get", "head")

    def parsed(self) -> Any:
        """The model of it, without responses and without the parts that are parsed one by one. Raises JobRefused."""
        kept: JsonObject = {"responses": {}}
        for name in ("summary", "description", "servers"):
            if name in self.raw:
                kept[name] = self.raw[name]
        return self.document.parsed("Operation", kept, self.label)

    def url(self, servers: Any, target: Target) -> str:
        """The URL with the placeholders of the path. Raises JobRefused when no server has a full address."""
        return (target.base_url or self._server(servers, target)).rstrip("/") + self.path

    def _server(self, servers: Any, target: Target) -> str:
        for holder in (self.item, self.document.contents):
            listed = holder.get("servers")
            if not servers and isinstance(listed, list) and listed:
                first = listed[0] if isinstance(listed[0], dict) else {}
                servers = [self.document.parsed("Server", first, f"{self.label}: servers.0")]
        url: str = servers[0].url if servers else ""
        for name, variable in ((servers[0].variables if servers else None) or {}).items():
            url = url.replace(f"{{{name}}}", variable.default)
        url = urljoin(target.document_url or "", url)
        if not url.lower().startswith(("http://", "https://")):
            raise JobRefused(f"{self.label}: the document names no server with a full address: give a `base_url`")
        return url
