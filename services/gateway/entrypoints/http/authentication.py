"""Who a request comes from. The one place that knows where credentials are presented."""

from typing import Final

from libs.contracts.errors import AuthenticationFailed, PermissionDenied, RateLimited
from libs.contracts.identity import Identity
from services.gateway.domain.accounts import Principal
from services.gateway.domain.rate_limit import RateLimiter
from services.gateway.entrypoints.http.messages import Request
from services.gateway.entrypoints.http.operations import Credential, Operation
from services.gateway.entrypoints.http.validation import query_values
from services.gateway.use_cases.authentication.key_authenticator import KeyAuthenticator
from services.gateway.use_cases.authentication.public_principals import PublicPrincipals

_BEARER: Final = "bearer "
_MISSING: Final = "The request has no API key: send it in the x-api-key header."
_NO_TOKENS: Final = "Only artifact endpoints take a bearer token: send an API key in the x-api-key header."
_ANYBODY: Final = Principal(
    identity=Identity(company_id="", user_id="anybody", key_id="anybody", scopes=frozenset()),
    expires_at=None,
    rate_limit=None,
)


class Authentication:
    def __init__(self, keys: KeyAuthenticator, public_keys: PublicPrincipals, limiter: RateLimiter) -> None:
        self._keys = keys
        self._public_keys = public_keys
        self._limiter = limiter

    async def authenticate(self, request: Request, operation: Operation) -> Principal:
        """The caller, who has taken one request of what the credential allows. An API key goes before any other.

        Raises ``AuthenticationFailed``, ``PermissionDenied`` where such a credential is never enough, and
        ``RateLimited`` when nothing is left of it.
        """
        if operation.anonymous:
            return _ANYBODY
        secret = request.headers.get(b"x-api-key")
        if secret:
            principal = await self._keys.by_secret(secret.decode("latin-1"))
        else:
            principal = await self._without_key(request, operation)
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

    async def _without_key(self, request: Request, operation: Operation) -> Principal:
        presented = request.headers.get(b"authorization", b"").decode("latin-1")
        if presented[: len(_BEARER)].lower() == _BEARER:
            if Credential.BEARER not in operation.credentials:
                raise AuthenticationFailed(_NO_TOKENS)
            return await self._keys.by_token(presented[len(_BEARER) :].strip())
        principal = await self._public(request.query)
        if principal is None:
            raise AuthenticationFailed(_MISSING)
        origin = request.headers.get(b"origin")
        if origin is None:
            raise AuthenticationFailed("A public key is taken together with an Origin header only.")
        if not _allows(principal, origin.decode("latin-1")):
            raise PermissionDenied("The public key may not be used from this origin.")
        if Credential.PUBLIC_KEY not in operation.credentials:
            raise PermissionDenied("A public key is not enough for this: it is for talking to its own agent.")
        return principal

    async def _public(self, query: bytes) -> Principal | None:
        """Whoever a key in the query stands for, if there is one. Raises ``AuthenticationFailed``."""
        given = query_values(query) if b"_key=" in query else {}
        connection_key, agent_key = given.get("connection_key"), given.get("agent_key")
        if connection_key is not None and agent_key is not None:
            raise AuthenticationFailed("Give either agent_key or connection_key, not both.")
        if connection_key is not None:
            return await self._public_keys.by_connection_key(connection_key)
        return None if agent_key is None else await self._public_keys.by_agent_key(agent_key)


def _allows(principal: Principal, origin: str) -> bool:
    return principal.public is not None and origin in principal.public.origins
