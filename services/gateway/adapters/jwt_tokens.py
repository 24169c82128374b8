"""Bearer tokens as signed JWTs."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Final

import jwt

from libs.contracts.errors import AuthenticationFailed
from services.gateway.domain.tokens import TokenGrant

_ALGORITHM: Final = "HS256"
_PURPOSE: Final = b"aes bearer tokens"


class JwtTokens:
    """Signs with a key of its own, derived from the installation's: no token can pass for a service's."""

    def __init__(self, signing_key: str) -> None:
        self._key = hmac.digest(signing_key.encode(), _PURPOSE, hashlib.sha256)

    def encode(self, grant: TokenGrant) -> str:
        claims = {"kid": grant.key_id, "scopes": sorted(grant.scopes), "exp": int(grant.expires_at.timestamp())}
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM)

    def decode(self, text: str) -> TokenGrant:
        try:
            claims = jwt.decode(
                text,
                self._key,
                algorithms=[_ALGORITHM],
                # Expiry is the caller's to check, who has the clock and the words for it.
                options={"require": ["exp", "kid", "scopes"], "verify_exp": False},
            )
        except jwt.InvalidTokenError as problem:
            raise AuthenticationFailed("The bearer token is not valid.") from problem
        return TokenGrant(
            key_id=claims["kid"],
            scopes=frozenset(claims["scopes"]),
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
        )
