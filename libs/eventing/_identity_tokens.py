"""Signed identities: authenticated once at the gateway, verified by every service."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import jwt

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity

_ALGORITHM: Final = "HS256"
_MINIMUM_KEY_LENGTH: Final = 32
_CACHED: Final = 4096


class IdentitySigner:
    """Signs and verifies identities with a secret that only the services of one installation know.

    ``accepted`` are further keys for verification only: the next key before a rotation, the last one after it.
    """

    def __init__(self, key: str, *accepted: str) -> None:
        if any(len(one) < _MINIMUM_KEY_LENGTH for one in (key, *accepted)):
            raise ValueError(f"the signing key needs at least {_MINIMUM_KEY_LENGTH} characters")
        self._key = key
        self._accepted = accepted
        self._signed = lru_cache(maxsize=_CACHED)(self._encode)
        self._verified = lru_cache(maxsize=_CACHED)(self._decode)

    def sign(self, identity: Identity, *, expires_at: float | None = None) -> str:
        """A token of this identity; ``expires_at`` in Unix seconds, None for commands, which expire themselves."""
        return self._signed(identity) if expires_at is None else self._encode(identity, exp=int(expires_at))

    def _encode(self, identity: Identity, **claims: int) -> str:
        claims_of_identity = {**identity.model_dump(mode="json"), "scopes": sorted(identity.scopes)}
        return jwt.encode(claims_of_identity | claims, self._key, algorithm=_ALGORITHM)

    def verify_command(self, token: str) -> Identity:
        """The identity in a command's token. Raises ``AuthenticationFailed``."""
        return self._verified(token)

    def verify_call(self, token: str) -> Identity:
        """The identity in an internal call's token, which must expire. Raises ``AuthenticationFailed``."""
        return self._decode(token, "exp")

    def _decode(self, token: str, *required: str) -> Identity:
        try:
            return Identity.model_validate(self._claims(token, required))
        except (jwt.InvalidTokenError, ValueError) as problem:
            raise AuthenticationFailed("the identity token is not valid") from problem

    def _claims(self, token: str, required: Sequence[str]) -> dict[str, Any]:
        *others, last = (self._key, *self._accepted)
        options: Any = {"require": list(required)}
        for key in others:
            try:
                return jwt.decode(token, key, algorithms=[_ALGORITHM], options=options)
            except jwt.InvalidSignatureError:
                continue
        return jwt.decode(token, last, algorithms=[_ALGORITHM], options=options)
