"""Finds the principal of an API key, or of a bearer token made from one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from libs.contracts.errors import AuthenticationFailed
from libs.contracts.identity import Identity
from services.gateway.domain.accounts import ApiKey, KeyOwner, Principal
from services.gateway.domain.credentials import digest_of, has_form
from services.gateway.domain.ports import KeyStore, TokenCodec
from services.gateway.use_cases.authentication.ttl_cache import TTLCache


@dataclass(frozen=True, slots=True)
class _Known:
    key: ApiKey
    principal: Principal


class KeyAuthenticator:
    def __init__(
        self,
        keys: KeyStore,
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
        return self._valid(await self._by_digest.find(digest_of(secret)) if has_form(secret) else None)

    async def by_token(self, token: str) -> Principal:
        """Raises ``AuthenticationFailed`` for a token that is invalid or expired, or whose key is."""
        grant = self._tokens.decode(token)
        if grant.expires_at <= self._now():
            raise AuthenticationFailed("The bearer token has expired.")
        principal = self._valid(await self._by_id.find(grant.key_id))
        identity = principal.identity
        # The key may have been narrowed since: a token never allows more than its key does now.
        narrowed = identity.model_copy(update={"scopes": identity.scopes & grant.scopes})
        return replace(principal, identity=narrowed, expires_at=grant.expires_at)

    def forget(self, key_id: str) -> None:
        """Drops a key from the caches, also what a look-up under way is about to find."""
        self._by_digest.forget(key_id)
        self._by_id.forget(key_id)

    def _valid(self, found: _Known | None) -> Principal:
        if found is None:
            raise AuthenticationFailed("The API key is not valid.")
        match found.key.state(self._now()):
            case "revoked":
                raise AuthenticationFailed("The API key has been revoked.")
            case "expired":
                raise AuthenticationFailed("The API key has expired.")
            case "valid":
                return found.principal

    async def _of_digest(self, digest: bytes) -> _Known | None:
        return _known(await self._keys.find_by_digest(digest))

    async def _of_id(self, key_id: str) -> _Known | None:
        return _known(await self._keys.find_by_id(key_id))


def _id(known: _Known) -> str:
    return known.key.id


def _known(owner: KeyOwner | None) -> _Known | None:
    if owner is None:
        return None
    key = owner.key
    identity = Identity(
        company_id=key.company_id,
        company_name=owner.company_name,
        user_id=key.user_id,
        user_name=owner.user_name,
        key_id=key.id,
        scopes=key.scopes,
    )
    return _Known(key, Principal(identity=identity, expires_at=key.expires_at, rate_limit=key.rate_limit))
