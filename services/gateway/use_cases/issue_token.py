from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from services.gateway.domain.accounts import Principal, TokenGrant, check_scopes
from services.gateway.domain.ports import TokenCodec

_log = structlog.get_logger("tokens")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    text: str
    grant: TokenGrant
    seconds: int


@dataclass(frozen=True, slots=True)
class IssueToken:
    """Issues a bearer token for an API key. Tokens are not stored: their rights are looked up on the key."""

    tokens: TokenCodec
    now: Callable[[], datetime]

    def __call__(self, caller: Principal, scopes: frozenset[str] | None, seconds: int) -> IssuedToken:
        """The token ends after ``seconds``, or when its key does. Raises ``PermissionDenied``."""
        identity = caller.identity
        granted = identity.scopes if scopes is None else scopes
        check_scopes(granted, identity.scopes, "A token cannot be given scopes that its key lacks")
        now = self.now().replace(microsecond=0)
        ends = now + timedelta(seconds=seconds)
        if caller.expires_at is not None:
            ends = min(ends, caller.expires_at.replace(microsecond=0))
        grant = TokenGrant(key_id=identity.key_id, scopes=granted, expires_at=ends)
        _log.info("token.issued", key_id=identity.key_id, user_id=identity.user_id, expires_at=ends.isoformat())
        return IssuedToken(self.tokens.encode(grant), grant, int((ends - now).total_seconds()))
