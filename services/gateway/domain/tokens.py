"""Encodes bearer tokens as signed JWTs, and verifies them."""

import hashlib
import hmac
from datetime import UTC, datetime
from typing import Any, Final

import jwt

from libs.contracts.errors import AuthenticationFailed
from services.gateway.domain.accounts import TokenGrant

_ALGORITHM: Final = "HS256"
_PURPOSE: Final = b"aes bearer tokens"


class JwtTokens:
    """Signs tokens with a key derived for this purpose, so that a token can't pass as a service's signature.

    ``accepted``: other keys that may have signed a token during a rotation.
    """

    def __init__(self, signing_key: str, *accepted: str) -> None:
        self._keys = [hmac.digest(key.encode(), _PURPOSE, hashlib.sha256) for key in (signing_key, *accepted)]

    def encode(self, grant: TokenGrant) -> str:
        claims = {"kid": grant.key_id, "scopes": sorted(grant.scopes), "exp": int(grant.expires_at.timestamp())}
        return jwt.encode(claims, self._keys[0], algorithm=_ALGORITHM)

    def decode(self, text: str) -> TokenGrant:
        """Verifies everything except the expiry. Raises ``AuthenticationFailed`` for an invalid token."""
        try:
            claims = self._claims(text)
        except jwt.InvalidTokenError as problem:
            raise AuthenticationFailed(
                "Invalid credential: it isn't an API key or token of this service."
                " Send a key that starts with aes_, or request a new token."
            ) from problem
        return TokenGrant(
            key_id=claims["kid"],
            scopes=frozenset(claims["scopes"]),
            expires_at=datetime.fromtimestamp(claims["exp"], UTC),
        )

    def _claims(self, text: str) -> dict[str, Any]:
        *others, last = self._keys
        for key in others:
            try:
                return _decode(text, key)
            except jwt.InvalidSignatureError:
                continue
        return _decode(text, last)


def _decode(text: str, key: bytes) -> dict[str, Any]:
    return jwt.decode(
        text,
        key,
        algorithms=[_ALGORITHM],
        # The caller checks the expiry, because it has the clock.
        options={"require": ["exp", "kid", "scopes"], "verify_exp": False},
    )
