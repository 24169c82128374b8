"""Signs and verifies identities and commands."""

import hashlib
import hmac
import time
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Final

import jwt

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity
from libs.contracts.messages import Envelope

_ALGORITHM: Final = "HS256"
_MINIMUM_KEY_LENGTH: Final = 32
_CACHED: Final = 4096
_PURPOSE: Final = b"aes.command.v1"


class IdentitySigner:
    """Signs and verifies identities with a key that all services share. ``accepted`` contains keys that only verify."""

    def __init__(self, key: str, *accepted: str) -> None:
        if any(len(one) < _MINIMUM_KEY_LENGTH for one in (key, *accepted)):
            raise ValueError(f"the signing key must have at least {_MINIMUM_KEY_LENGTH} characters")
        self._key = key
        self._accepted = accepted
        # Commands are signed with a derived key, so that a token's signature is never valid for a command.
        self._command_keys = [hmac.digest(one.encode(), _PURPOSE, hashlib.sha256) for one in (key, *accepted)]
        self._signed = lru_cache(maxsize=_CACHED)(self._encode)
        # Callers reuse a token for a minute.
        self._verified = lru_cache(maxsize=_CACHED)(self._decode)

    def sign(self, identity: Identity, *, expires_at: float | None = None) -> str:
        """Returns a token for the identity. ``expires_at`` is in Unix seconds, or None for a command."""
        return self._signed(identity) if expires_at is None else self._encode(identity, exp=int(expires_at))

    def _encode(self, identity: Identity, **claims: int) -> str:
        claims_of_identity = {**identity.model_dump(mode="json"), "scopes": sorted(identity.scopes)}
        return jwt.encode(claims_of_identity | claims, self._key, algorithm=_ALGORITHM)

    def sign_command(self, envelope: Envelope, identity: Identity, payload: bytes) -> Envelope:
        """Returns the envelope with the caller's identity, and with a signature that is valid only for this command."""
        token = self.sign(identity)
        signature = _signature(self._command_keys[0], envelope, token, payload)
        return replace(envelope, identity=token, signature=signature.decode())

    def verify_command(self, envelope: Envelope, payload: bytes) -> Identity:
        """Returns the identity of a command's caller. Ignores revocations. Raises ``AuthenticationFailed``."""
        token, given = envelope.identity or "", (envelope.signature or "").encode()
        identity, _ = self._verified(token)
        if envelope.signature is None:
            raise AuthenticationFailed("The command has no signature.")
        if not any(hmac.compare_digest(_signature(key, envelope, token, payload), given) for key in self._command_keys):
            raise AuthenticationFailed("The command doesn't match its signature.")
        return identity

    def verify_call(self, token: str) -> Identity:
        """Returns the identity in the token of an internal call. Raises ``AuthenticationFailed``."""
        identity, expires_at = self._verified(token)
        if expires_at is None:
            raise AuthenticationFailed("Invalid identity token.")
        if expires_at <= time.time():
            raise AuthenticationFailed("The identity token has expired.")
        return identity

    def _decode(self, token: str) -> tuple[Identity, float | None]:
        """Returns the identity in a token, and when the token expires. Raises ``AuthenticationFailed``."""
        try:
            for key in (self._key, *self._accepted):
                with suppress(jwt.InvalidSignatureError):
                    claims = jwt.decode(token, key, algorithms=[_ALGORITHM])
                    return Identity.model_validate(claims), claims.get("exp")
        except (jwt.InvalidTokenError, ValueError) as problem:
            raise AuthenticationFailed("Invalid identity token.") from problem
        raise AuthenticationFailed("Invalid identity token.")


def _signature(key: bytes, envelope: Envelope, token: str, payload: bytes) -> bytes:
    """Returns a command's signature. It doesn't cover the trace, which changes in transit."""
    attributes = (
        *(envelope.id, envelope.type, envelope.subject, envelope.time, envelope.expires_at or ""),
        *(envelope.correlation_id, envelope.company_id, token),
    )
    # Attributes never contain NUL, so two different commands can't yield the same bytes.
    return hmac.digest(key, "\0".join(attributes).encode() + b"\0" + payload, hashlib.sha256).hex().encode()
