"""Which web pages of other origins may read answers (CORS)."""

from typing import Final

from libs.contracts.errors import PermissionDenied
from services.gateway.entrypoints.http.authentication import Authentication
from services.gateway.entrypoints.http.messages import Headers, Reply, Request
from services.gateway.entrypoints.http.operations import Credential, Operation

_EXPOSED: Final = (
    b"access-control-expose-headers",
    b"Content-Disposition, Content-Range, ETag, Location, Preference-Applied, Retry-After, X-Correlation-ID",
)
_TAKEN: Final = (
    b"access-control-allow-headers",
    b"Accept, Authorization, Content-Type, Idempotency-Key, If-None-Match, If-Range, Last-Event-ID, Prefer, Range,"
    b" X-API-Key, X-Correlation-ID",
)
_REMEMBERED: Final = (b"access-control-max-age", b"600")


class CrossOrigin:
    """Configured origins may read everything, those of a public key what that key is good for."""

    def __init__(self, configured: frozenset[str], authentication: Authentication) -> None:
        self._configured = configured
        self._authentication = authentication

    async def headers(self, request: Request, origin: bytes) -> Headers:
        """What any answer to a page of that origin carries; nothing for an origin that is not allowed."""
        text = origin.decode("latin-1")
        if text in self._configured or await self._authentication.is_shared_with(text, request.query):
            return [(b"access-control-allow-origin", origin), _EXPOSED]
        return []

    def preflight(self, request: Request, operations: dict[str, Operation]) -> Reply:
        """The answer to a question of the browser's; for an allowed origin. Raises ``PermissionDenied``."""
        configured = request.headers[b"origin"].decode("latin-1") in self._configured
        methods = [
            method
            for method, operation in operations.items()
            if configured or Credential.PUBLIC_KEY in operation.credentials
        ]
        if not methods:
            raise PermissionDenied("A public key is not enough for anything at this path.")
        allowed = (b"access-control-allow-methods", ", ".join(sorted(methods)).encode())
        return Reply(204, headers=[allowed, _TAKEN, _REMEMBERED])


def is_preflight(request: Request) -> bool:
    asks = b"access-control-request-method" in request.headers and b"origin" in request.headers
    return asks and request.method == "OPTIONS"
