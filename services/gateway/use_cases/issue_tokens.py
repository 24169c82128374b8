"""Bearer tokens for those who hold an API key."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from libs.contracts.errors import PermissionDenied
from services.gateway.domain.accounts import Principal
from services.gateway.domain.ports import TokenCodec
from services.gateway.domain.tokens import TokenGrant

_log = structlog.get_logger("tokens")


@dataclass(frozen=True, slots=True)
class IssuedToken:
    text: str
    grant: TokenGrant
    seconds: int


class TokenIssuer:
    """Tokens are not stored: what they are good for is looked up on the key at each request."""

    def __init__(self, tokens: TokenCodec, *, now: Callable[[], datetime]) -> None:
        self._tokens = tokens
        self._now = now

    def issue(self, holder: Principal, scopes: frozenset[str] | None, seconds: int) -> IssuedToken:
        """A token for that long, or until the key expires. Raises ``PermissionDenied`` for scopes beyond the key's."""
        identity = holder.identity
        granted = identity.scopes if scopes is None else scopes
        beyond = sorted(granted - identity.scopes)
        if beyond:
            raise PermissionDenied(f"A token cannot be given scopes that its key lacks: {', '.join(beyond)}.")
        now = self._now().replace(microsecond=0)
        ends = now + timedelta(seconds=seconds)
        if holder.expires_at is not None:
            ends = min(ends, holder.expires_at.replace(microsecond=0))
        grant = TokenGrant(key_id=identity.key_id, scopes=granted, expires_at=ends)
        _log.info("token.issued", key_id=identity.key_id, user_id=identity.user_id, expires_at=ends.isoformat())
        return IssuedToken(self._tokens.encode(grant), grant, int((ends - now).total_seconds()))
