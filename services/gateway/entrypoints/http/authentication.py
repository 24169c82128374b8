"""Dependencies that authenticate a request; the only place that knows where credentials are presented."""

from enum import StrEnum
from typing import Final

from fastapi import Request
from fastapi.security import SecurityScopes

from libs import tracing
from libs.contracts.errors import AuthenticationFailed, PermissionDenied, RateLimited
from libs.contracts.identity import Identity
from libs.service_defaults.observed_requests import begin_span
from services.gateway.domain.accounts import Principal
from services.gateway.domain.rate_limit import RateLimiter
from services.gateway.entrypoints.http.paths import reads_body
from services.gateway.entrypoints.http.reference.described import Described
from services.gateway.entrypoints.http.validation import query_values
from services.gateway.use_cases.principals import Principals

_BEARER: Final = "bearer "
_MISSING: Final = "The request has no API key: send it in the x-api-key header."
_NO_TOKENS: Final = "Only artifact endpoints take a bearer token: send an API key in the x-api-key header."


class Credential(StrEnum):
    """A kind of credential that some operations take beside an API key, which all of them take."""

    BEARER = "bearer"
    PUBLIC_KEY = "public_key"


_SCHEMES: Final = {Credential.BEARER: ("bearer",), Credential.PUBLIC_KEY: ("connectionKey", "agentKey")}


class Authentication:
    """Finds the principal behind a credential and counts the request against its rate limit."""

    def __init__(self, principals: Principals, limiter: RateLimiter) -> None:
        self._principals = principals
        self._limiter = limiter

    async def authenticate(self, request: Request, credentials: frozenset[Credential]) -> Principal:
        """``credentials``: kinds that are enough beside an API key, which goes before any other.

        Raises ``AuthenticationFailed``, ``PermissionDenied`` where such a credential is never enough, and
        ``RateLimited`` when nothing is left of it.
        """
        secret = request.headers.get("x-api-key")
        if secret:
            principal = await self._principals.by_secret(secret)
        else:
            principal = await self._without_key(request, credentials)
        if principal.rate_limit is not None:
            wait = self._limiter.take(principal.identity.key_id, principal.rate_limit)
            if wait:
                raise RateLimited(f"The key allows {principal.rate_limit} requests a minute.", retry_after=wait)
        return principal

    async def is_shared_with(self, origin: str, query: bytes) -> bool:
        """Whether the query has a public key that pages of that origin may use."""
        try:
            principal = await self._public(query)
        except AuthenticationFailed:
            return False
        return principal is not None and _allows(principal, origin)

    async def _without_key(self, request: Request, credentials: frozenset[Credential]) -> Principal:
        presented = request.headers.get("authorization", "")
        if presented[: len(_BEARER)].lower() == _BEARER:
            if Credential.BEARER not in credentials:
                raise AuthenticationFailed(_NO_TOKENS)
            return await self._principals.by_token(presented[len(_BEARER) :].strip())
        principal = await self._public(request.scope["query_string"])
        if principal is None:
            raise AuthenticationFailed(_MISSING)
        origin = request.headers.get("origin")
        if origin is None:
            raise AuthenticationFailed("A public key is taken together with an Origin header only.")
        if not _allows(principal, origin):
            raise PermissionDenied("The public key may not be used from this origin.")
        if Credential.PUBLIC_KEY not in credentials:
            raise PermissionDenied("A public key is not enough for this: it is for talking to its own agent.")
        return principal

    async def _public(self, query: bytes) -> Principal | None:
        """The principal of a public key in the query; none without one. Raises ``AuthenticationFailed``."""
        given = query_values(query) if b"_key=" in query else {}
        connection_key, agent_key = given.get("connection_key"), given.get("agent_key")
        if connection_key is not None and agent_key is not None:
            raise AuthenticationFailed("Give either agent_key or connection_key, not both.")
        if connection_key is not None:
            return await self._principals.by_connection_key(connection_key)
        return None if agent_key is None else await self._principals.by_agent_key(agent_key)


class Authenticated(Described):
    """Dependency for ``Security``: the principal, who has the scopes that the operation asks for."""

    errors = (401, 429)

    def __init__(self, *credentials: Credential) -> None:
        self.credentials = frozenset(credentials)
        others = [name for kind in Credential if kind in self.credentials for name in _SCHEMES[kind]]
        self.security = ("apiKey", *others)

    async def __call__(self, request: Request, needed: SecurityScopes) -> Principal:
        authentication: Authentication = request.app.state.authentication
        principal = await authentication.authenticate(request, self.credentials)
        for scope in needed.scopes:
            if scope not in principal.identity.scopes:
                raise PermissionDenied(f"The credential lacks the scope {scope}.")
        request.state.principal = principal
        _begin_span(request)
        return principal


class Anonymous(Described):
    """Dependency of operations that take no credential: their upstream finds out by other means what may be shown."""

    security = ()
    principal: Final = Principal(
        identity=Identity(company_id="", user_id="anybody", key_id="anybody", scopes=frozenset()),
        expires_at=None,
        rate_limit=None,
    )

    async def __call__(self, request: Request) -> Principal:
        _begin_span(request)
        return self.principal


by_api_key: Final = Authenticated()
by_api_key_or_token: Final = Authenticated(Credential.BEARER)
by_api_key_or_public_key: Final = Authenticated(Credential.PUBLIC_KEY)
by_any_credential: Final = Authenticated(Credential.BEARER, Credential.PUBLIC_KEY)
anonymous: Final = Anonymous()


def _begin_span(request: Request) -> None:
    """Begin the request's span now, unless its body is still to say which correlation it belongs to."""
    if tracing.is_on() and not reads_body(request.scope["route"]):
        begin_span(request.scope)


def _allows(principal: Principal, origin: str) -> bool:
    return principal.public is not None and origin in principal.public.origins
