"""Sends CORS headers, which let web pages on allowed origins read responses."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from libs.contracts.errors import PermissionDenied
from libs.service_defaults.errors import STATUSES
from services.gateway.entrypoints.door.callers import Authentication, takes_public_keys
from services.gateway.entrypoints.door.errors import as_service_error, refusal
from services.gateway.entrypoints.door.routes import methods_of, routes_at

_EXPOSED: Final = (
    "Content-Disposition", "Content-Range", "ETag", "Link", "Location", "Preference-Applied",
    "Retry-After", "X-Correlation-ID", "Mcp-Session-Id",
)  # fmt: skip
_TAKEN: Final = (
    "Accept", "Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "If-Range", "Last-Event-ID",
    "Mcp-Method", "Mcp-Name", "Mcp-Protocol-Version", "Mcp-Session-Id", "Prefer", "Range", "X-API-Key",
    "X-Correlation-ID",
)  # fmt: skip
# Also sent without an origin, so that a cache doesn't serve a response without CORS headers to a page.
_VARY: Final = (b"vary", b"Origin")


class CrossOriginMiddleware(CORSMiddleware):
    """Lets pages on configured origins read all responses. Pages on a public key's origins may read the responses to
    requests with that key.

    If an outage prevents looking up a key's origins, any page may read the error. Otherwise, the page would mistake the
    outage for a refusal.
    """

    def __init__(self, app: ASGIApp, *, configured: Collection[str], authentication: Authentication) -> None:
        super().__init__(app, allow_origins=configured, expose_headers=_EXPOSED, max_age=600)
        self._authentication = authentication

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # WebSockets check the origins of public keys themselves. Browsers never add other credentials on their own.
            await self.app(scope, receive, send)
            return
        added = [_VARY]

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *added]
            await send(message)

        app = self.app
        origin = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"), None)
        if origin is not None:
            shared = [_VARY, *Headers({**self.simple_headers, "Access-Control-Allow-Origin": origin}).raw]
            try:
                if await self._is_shared(origin, scope["query_string"]):
                    added = shared
                    app = self._preflight(scope, origin) or app
            except Exception as problem:
                error = as_service_error(problem)
                app = refusal(error)
                if STATUSES[error.kind] >= 500:
                    added = shared
        await app(scope, receive, send_with_headers)

    async def _is_shared(self, origin: str, query: bytes) -> bool:
        return self.is_allowed_origin(origin) or await self._authentication.is_shared_with(origin, query)

    def _preflight(self, scope: Scope, origin: str) -> Response | None:
        """Returns the response to a preflight request, or None for other requests.

        Raises ``PermissionDenied`` if only public keys allow the origin, but the path doesn't accept public keys.
        """
        if scope["method"] != "OPTIONS" or "access-control-request-method" not in Headers(scope=scope):
            return None
        operations = [route for route in routes_at(scope["app"], scope["path"]) if route.include_in_schema]
        if not operations:
            return None
        configured = self.is_allowed_origin(origin)
        takers = [route for route in operations if configured or takes_public_keys(route)]
        if not takers:
            raise PermissionDenied("Public keys can't be used at this path.")
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Methods": ", ".join(methods_of(takers)),
                "Access-Control-Allow-Headers": ", ".join(_TAKEN),
                "Access-Control-Max-Age": self.preflight_headers["Access-Control-Max-Age"],
            },
        )
