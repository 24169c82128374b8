"""Dependencies that authenticate requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from fastapi import Request
from fastapi.routing import APIRoute
from fastapi.security import APIKeyHeader, APIKeyQuery, HTTPBearer, SecurityScopes
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection

from libs import tracing
from libs.contracts.errors import AuthenticationFailed, PermissionDenied
from libs.contracts.identity import Identity
from libs.service_defaults.observed_requests import begin_span
from services.gateway.domain.accounts import Principal, is_secret
from services.gateway.domain.limits import REQUESTS
from services.gateway.entrypoints.door.queries import query_values
from services.gateway.entrypoints.door.routes import reads_body
from services.gateway.use_cases.load_shedding import LoadShedding
from services.gateway.use_cases.principals import Principals
from services.gateway.use_cases.rates import Rates

API_KEY: Final = APIKeyHeader(
    name="x-api-key",
    scheme_name="apiKey",
    description="An API key with the scopes that the operation needs.",
    auto_error=False,
)
BEARER: Final = HTTPBearer(
    scheme_name="bearer", description="A token created by `POST /auth/token/`, or an API key.", auto_error=False
)
CONNECTION_KEY: Final = APIKeyQuery(
    name="connection_key",
    scheme_name="connectionKey",
    description="A connection's public key, together with an `Origin` header that the connection allows.",
    auto_error=False,
)
AGENT_KEY: Final = APIKeyQuery(
    name="agent_key",
    scheme_name="agentKey",
    description="A public agent's key, together with an `Origin` header that the agent allows.",
    auto_error=False,
)
ANYBODY: Final = Principal(
    identity=Identity(company_id="", user_id="anybody", key_id="anybody", scopes=frozenset()),
    expires_at=None,
    rate_limit=None,
)
_BEARER: Final = "bearer "
_MISSING: Final = "The request has no API key. Send it in the x-api-key header, or as Authorization: Bearer."


class Authentication:
    """Finds the principal for a credential, and counts requests against rate limits."""

    def __init__(self, principals: Principals, rates: Rates, load: LoadShedding) -> None:
        self._principals = principals
        self._rates = rates
        self._load = load

    async def authenticate(
        self, request: HTTPConnection, *, takes_public_keys: bool, token: str | None = None
    ) -> Principal:
        """Finds the caller's principal and counts the request. ``token``: a bearer token that isn't in a header.

        An API key takes precedence over a bearer token, and a bearer token over a public key. ``Authorization: Bearer``
        may contain a bearer token or an API key.

        Raises ``AuthenticationFailed`` for an invalid credential, ``PermissionDenied`` if the operation doesn't accept
        public keys, and ``RateLimited`` like ``count``.
        """
        secret = request.headers.get("x-api-key")
        bearer = _bearer(request)
        if not secret and bearer is not None and is_secret(bearer):
            secret = bearer
        if secret:
            principal = await self._principals.by_secret(secret)
        elif (presented := bearer if bearer is not None else token) is not None:
            principal = await self._principals.by_token(presented)
        else:
            principal = await self._by_public_key(request, takes_public_keys)
        request.state.principal = principal
        await self.count(principal)
        return principal

    async def count(self, principal: Principal) -> None:
        """Counts a request. Raises ``RateLimited`` above a rate limit, or if the gateway is overloaded."""
        await self._rates.take_of_key(principal.identity.key_id, principal.rate_limit)
        await self._load.admit(principal.identity.company_id)
        await self._rates.take(principal.identity.company_id, REQUESTS)

    async def is_shared_with(self, origin: str, query: bytes) -> bool:
        """Returns whether the query contains a public key that pages on this origin may use."""
        try:
            principal = await self._public(query)
        except AuthenticationFailed:
            return False
        return principal is not None and _allows(principal, origin)

    async def _by_public_key(self, request: HTTPConnection, is_enough: bool) -> Principal:
        principal = await self._public(request.scope["query_string"])
        if principal is None:
            raise AuthenticationFailed(_MISSING)
        origin = request.headers.get("origin")
        if origin is None:
            raise AuthenticationFailed("A public key requires an Origin header.")
        if not _allows(principal, origin):
            raise PermissionDenied("This origin isn't allowed for the public key.")
        if not is_enough:
            raise PermissionDenied("A public key only gives access to its own agent.")
        return principal

    async def _public(self, query: bytes) -> Principal | None:
        """Returns the principal for the public key in the query, or None without a public key."""
        given = query_values(query) if b"_key=" in query else {}
        connection_key, agent_key = given.get("connection_key"), given.get("agent_key")
        if connection_key is not None and agent_key is not None:
            raise AuthenticationFailed("Send either agent_key or connection_key, not both.")
        if connection_key is not None:
            return await self._principals.by_connection_key(connection_key)
        return None if agent_key is None else await self._principals.by_agent_key(agent_key)


async def by_api_key(request: Request, needed: SecurityScopes) -> Principal:
    """Returns the caller's principal, which must have the scopes that the operation requires."""
    return await authenticated(request, needed.scopes)


async def by_api_key_or_public_key(request: Request, needed: SecurityScopes) -> Principal:
    """Like ``by_api_key``, for operations that also accept a public key."""
    return await authenticated(request, needed.scopes, takes_public_keys=True)


SCHEMES: Final[Mapping[object, Sequence[SecurityBase]]] = {
    by_api_key: (API_KEY, BEARER),
    by_api_key_or_public_key: (API_KEY, BEARER, CONNECTION_KEY, AGENT_KEY),
}
"""The kinds of credentials that each dependency accepts, for the OpenAPI document only.

If they were FastAPI dependencies, FastAPI would resolve them for each request.
"""


async def anonymous(request: Request) -> Principal:
    """Dependency for operations without a credential, such as signed links, which another service verifies."""
    _begin_span(request)
    return ANYBODY


async def authenticated(request: Request, scopes: Iterable[str], *, takes_public_keys: bool = False) -> Principal:
    """Returns the caller's principal. Raises ``PermissionDenied`` if the caller lacks a scope."""
    authentication: Authentication = request.app.state.door.authentication
    principal = await authentication.authenticate(request, takes_public_keys=takes_public_keys)
    require_scopes(principal, scopes)
    _begin_span(request)
    return principal


def takes_public_keys(route: APIRoute) -> bool:
    return any(each.call is by_api_key_or_public_key for each in route.dependant.dependencies)


def require_scopes(principal: Principal, scopes: Iterable[str]) -> None:
    """Raises ``PermissionDenied`` unless the principal has all of the scopes."""
    for scope in scopes:
        if scope not in principal.identity.scopes:
            raise PermissionDenied(f"The credential lacks the scope {scope}.")


def _begin_span(request: Request) -> None:
    """Starts the request's span, unless a correlation ID may still be read from the body."""
    if tracing.is_on() and not reads_body(request.scope["route"]):
        begin_span(request.scope)


def _bearer(request: HTTPConnection) -> str | None:
    presented = request.headers.get("authorization", "")
    return presented[len(_BEARER) :].strip() if presented[: len(_BEARER)].lower() == _BEARER else None


def _allows(principal: Principal, origin: str) -> bool:
    return principal.public is not None and origin in principal.public.origins
