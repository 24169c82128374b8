"""Who a request comes from. The one place that knows where credentials are presented."""

from libs.contracts.errors import AuthenticationFailed, RateLimited
from services.gateway.domain.accounts import Principal
from services.gateway.domain.rate_limit import RateLimiter
from services.gateway.use_cases.authenticate import KeyAuthenticator


class Authentication:
    def __init__(self, keys: KeyAuthenticator, limiter: RateLimiter) -> None:
        self._keys = keys
        self._limiter = limiter

    async def authenticate(self, headers: dict[bytes, bytes]) -> Principal:
        """The caller, who has taken one request of what the key allows.

        Raises ``AuthenticationFailed``, and ``RateLimited`` when nothing is left of it.
        """
        secret = headers.get(b"x-api-key")
        if not secret:
            raise AuthenticationFailed("The request has no API key: send it in the x-api-key header.")
        principal = await self._keys.by_secret(secret.decode("latin-1"))
        if principal.rate_limit is not None:
            wait = self._limiter.take(principal.identity.key_id, principal.rate_limit)
            if wait:
                raise RateLimited(f"The API key allows {principal.rate_limit} requests a minute.", retry_after=wait)
        return principal
