"""Who is behind an API key, or behind a bearer token made from one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity
from services.gateway.domain.accounts import KeyOwner, Principal
from services.gateway.domain.ports import KeyDirectory, TokenCodec
from services.gateway.domain.secrets import digest_of, has_form
from services.gateway.use_cases.ttl_cache import TTLCache


@dataclass(frozen=True, slots=True)
class _Known:
    principal: Principal
    revoked: bool


class KeyAuthenticator:
    """Finds the principal of a secret, and of a token that stands for a key."""

    def __init__(
        self,
        keys: KeyDirectory,
        tokens: TokenCodec,
        *,
        fresh: Callable[[], bool],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._tokens = tokens
        self._now = now
        self._by_digest: TTLCache[bytes, _Known] = TTLCache(self._of_digest, _id, fresh=fresh, monotonic=monotonic)
        self._by_id: TTLCache[str, _Known] = TTLCache(self._of_id, _id, fresh=fresh, monotonic=monotonic)

    async def by_secret(self, secret: str) -> Principal:
        """Raises ``AuthenticationFailed`` for an unknown, revoked or expired key."""
        found = await self._by_digest.find(digest_of(secret)) if has_form(secret) else None
        return self._valid(found)

    async def by_token(self, token: str) -> Principal:
        """Raises ``AuthenticationFailed`` for a token that is not valid any more, or whose key is not."""
        grant = self._tokens.decode(token)
        if grant.expires_at <= self._now():
            raise AuthenticationFailed("The bearer token has expired.")
        principal = self._valid(await self._by_id.find(grant.key_id))
        identity = principal.identity
        # The key may have been narrowed since: a token never allows more than its key does now.
        narrowed = identity.model_copy(update={"scopes": identity.scopes & grant.scopes})
        return replace(principal, identity=narrowed, expires_at=grant.expires_at)

    def forget(self, key_id: str) -> None:
        """Drop what is known of a key, also what a look-up under way is about to find."""
        self._by_digest.forget(key_id)
        self._by_id.forget(key_id)

    def _valid(self, found: _Known | None) -> Principal:
        if found is None:
            raise AuthenticationFailed("The API key is not valid.")
        if found.revoked:
            raise AuthenticationFailed("The API key has been revoked.")
        principal = found.principal
        if principal.expires_at is not None and principal.expires_at <= self._now():
            raise AuthenticationFailed("The API key has expired.")
        return principal

    async def _of_digest(self, digest: bytes) -> _Known | None:
        return _known(await self._keys.find_by_digest(digest))

    async def _of_id(self, key_id: str) -> _Known | None:
        return _known(await self._keys.find_by_id(key_id))


def _id(known: _Known) -> str:
    return known.principal.identity.key_id


def _known(holder: KeyOwner | None) -> _Known | None:
    if holder is None:
        return None
    key = holder.key
    identity = Identity(
        company_id=key.company_id,
        company_name=holder.company_name,
        user_id=key.user_id,
        user_name=holder.user_name,
        key_id=key.id,
        scopes=key.scopes,
    )
    principal = Principal(identity=identity, expires_at=key.expires_at, rate_limit=key.rate_limit)
    return _Known(principal, key.revoked_at is not None)
