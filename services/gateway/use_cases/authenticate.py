"""Who is behind an API key; found keys are kept for a short while."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity
from services.gateway.domain.accounts import Holder, Principal
from services.gateway.domain.ports import KeyDirectory
from services.gateway.domain.secrets import digest_of, has_form

CACHE_SECONDS: Final = 30.0
_CACHE_SIZE: Final = 10_000


@dataclass(frozen=True, slots=True)
class _Cached:
    principal: Principal
    revoked: bool
    until: float


class KeyAuthenticator:
    """Finds the principal of a secret.

    A cached key serves for 30 s at most and is dropped when its revocation is heard of (``forget``). While the
    bus is not ``fresh`` a revocation might go unheard, so that every request asks the database.
    """

    def __init__(
        self,
        keys: KeyDirectory,
        *,
        fresh: Callable[[], bool],
        now: Callable[[], datetime],
        monotonic: Callable[[], float],
    ) -> None:
        self._keys = keys
        self._fresh = fresh
        self._now = now
        self._monotonic = monotonic
        self._cache: dict[bytes, _Cached] = {}
        self._by_key: dict[str, bytes] = {}
        self._forgotten = 0

    async def by_secret(self, secret: str) -> Principal:
        """Raises ``AuthenticationFailed`` for an unknown, revoked or expired key."""
        if not has_form(secret):
            raise AuthenticationFailed("The API key is not valid.")
        digest = digest_of(secret)
        found = self._cache.get(digest)
        if found is None or found.until <= self._monotonic() or not self._fresh():
            found = await self._load(digest)
        principal = found.principal
        if found.revoked:
            raise AuthenticationFailed("The API key has been revoked.")
        if principal.expires_at is not None and principal.expires_at <= self._now():
            raise AuthenticationFailed("The API key has expired.")
        return principal

    def forget(self, key_id: str) -> None:
        """Drop what is known of a key, also what a look-up under way is about to find."""
        self._forgotten += 1
        digest = self._by_key.pop(key_id, None)
        if digest is not None:
            self._cache.pop(digest, None)

    async def _load(self, digest: bytes) -> _Cached:
        forgotten = self._forgotten
        holder = await self._keys.holder(digest)
        if holder is None:
            raise AuthenticationFailed("The API key is not valid.")
        found = _Cached(_principal(holder), holder.key.revoked_at is not None, self._monotonic() + CACHE_SECONDS)
        if forgotten == self._forgotten:
            if len(self._cache) >= _CACHE_SIZE:
                self._cache.clear()
                self._by_key.clear()
            self._cache[digest] = found
            self._by_key[holder.key.id] = digest
        return found


def _principal(holder: Holder) -> Principal:
    key = holder.key
    identity = Identity(
        company_id=key.company_id,
        company_name=holder.company_name,
        user_id=key.user_id,
        user_name=holder.user_name,
        key_id=key.id,
        scopes=key.scopes,
    )
    return Principal(identity=identity, expires_at=key.expires_at, rate_limit=key.rate_limit)
