"""Identities signed by whoever authenticated them, so that services need not ask again."""

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

    ``accepted`` are further keys, of which nothing is signed with: the next one before and the last one after a change.
    """

    def __init__(self, key: str, *accepted: str) -> None:
        if any(len(one) < _MINIMUM_KEY_LENGTH for one in (key, *accepted)):
            raise ValueError(f"the signing key needs at least {_MINIMUM_KEY_LENGTH} characters")
        self._key = key
        self._accepted = accepted
        self._verified = lru_cache(maxsize=_CACHED)(self._verify_lasting)

    def sign(self, identity: Identity, *, expires_at: float | None = None) -> str:
        """A token of this identity; ``expires_at`` in Unix seconds, none for commands, which expire themselves."""
        claims = identity.model_dump(mode="json")
        claims["scopes"] = sorted(identity.scopes)
        if expires_at is not None:
            claims["exp"] = int(expires_at)
        return jwt.encode(claims, self._key, algorithm=_ALGORITHM)

    def verify_command(self, token: str) -> Identity:
        """The identity in a command's token. Raises ``AuthenticationFailed``."""
        return self._verified(token)

    def verify_call(self, token: str) -> Identity:
        """The identity in an internal call's token, which must expire. Raises ``AuthenticationFailed``."""
        return self._decode(token, require=["exp"])

    def _verify_lasting(self, token: str) -> Identity:
        return self._decode(token, require=[])

    def _decode(self, token: str, *, require: list[str]) -> Identity:
        try:
            return Identity.model_validate(self._claims(token, require))
        except (jwt.InvalidTokenError, ValueError) as problem:
            raise AuthenticationFailed("the identity token is not valid") from problem

    def _claims(self, token: str, require: list[str]) -> dict[str, Any]:
        *others, last = (self._key, *self._accepted)
        for key in others:
            try:
                return jwt.decode(token, key, algorithms=[_ALGORITHM], options={"require": require})
            except jwt.InvalidSignatureError:
                continue
        return jwt.decode(token, last, algorithms=[_ALGORITHM], options={"require": require})
