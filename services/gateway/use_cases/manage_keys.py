"""Making, listing, rotating and revoking API keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from libs.contracts.errors import Conflict, NotFound, PermissionDenied
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import Identity, Scope
from services.gateway.domain.accounts import ApiKey, Principal
from services.gateway.domain.idempotency import IdempotentRequest, KeyReused, OtherBody
from services.gateway.domain.ports import KeyStore
from services.gateway.domain.secrets import new_secret

DEFAULT_LIFETIME: Final = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key together with its secret, which is nowhere else."""

    key: ApiKey
    secret: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest:
    """What is wanted of a new key; what is left out comes from its maker."""

    name: str
    scopes: frozenset[str]
    expires_at: datetime | None
    rate_limit: int | None


class KeyManager:
    """What a caller may do with the keys of the company: with those of others only by ``company:…`` scopes."""

    def __init__(self, store: KeyStore, *, now: Callable[[], datetime], forget: Callable[[str], None]) -> None:
        self._store = store
        self._now = now
        self._forget = forget

    async def create(
        self, maker: Principal, wanted: KeyRequest, *, correlation_id: str, request: IdempotentRequest | None
    ) -> IssuedKey:
        """Raises ``PermissionDenied`` for scopes or a rate limit beyond the maker's own."""
        identity = maker.identity
        _check_within(identity, wanted.scopes)
        granted = replace(
            wanted,
            rate_limit=_limit_within(maker.rate_limit, wanted.rate_limit),
            expires_at=wanted.expires_at or self._now() + DEFAULT_LIFETIME,
        )
        return await self.issue(
            identity.company_id, identity.user_id, granted, correlation_id=correlation_id, request=request
        )

    async def issue(
        self,
        company_id: str,
        user_id: str,
        granted: KeyRequest,
        *,
        correlation_id: str,
        request: IdempotentRequest | None,
    ) -> IssuedKey:
        """A key for that user, exactly as granted; whoever calls this has the right to."""
        secret = new_secret()
        key = ApiKey(
            id=new_id(),
            company_id=company_id,
            user_id=user_id,
            name=granted.name,
            prefix=secret.prefix,
            scopes=granted.scopes,
            rate_limit=granted.rate_limit,
            created_at=self._now(),
            expires_at=granted.expires_at,
        )
        try:
            await self._store.add_key(key, secret.digest, correlation_id=correlation_id, request=request)
        except KeyReused as reuse:
            raise _already_made(reuse, request) from None
        return IssuedKey(key, secret.text)

    async def find(self, company_id: str, key_id: str) -> ApiKey | None:
        return await self._store.key(company_id, key_id) if is_id(key_id) else None

    async def page(self, reader: Identity, *, limit: int, offset: int) -> tuple[Sequence[ApiKey], int]:
        everyone = reader.allows(Scope.COMPANY_READ) or reader.allows(Scope.COMPANY_WRITE)
        user_id = None if everyone else reader.user_id
        return await self._store.keys(reader.company_id, user_id, limit=limit, offset=offset)

    async def revoke(self, writer: Identity, key_id: str, *, correlation_id: str) -> None:
        key = await self._changeable(writer, key_id)
        await self._store.revoke_key(key, at=self._now(), correlation_id=correlation_id)
        # This replica need not wait for its own event to come back.
        self._forget(key.id)

    async def rotate(
        self,
        writer: Identity,
        key_id: str,
        *,
        expires_at: datetime | None,
        grace_seconds: int,
        correlation_id: str,
        request: IdempotentRequest | None,
    ) -> IssuedKey:
        """A new key like the old one, which stays valid for the grace period.

        Without ``expires_at`` the new key lives as long as the old one was meant to.
        Raises ``Conflict`` when the old key is revoked, expired or rotated already.
        """
        old = await self._changeable(writer, key_id)
        # Else who may write keys would get a secret with scopes of somebody else's key.
        _check_within(writer, old.scopes)
        try:
            return await self._replace(old, expires_at, timedelta(seconds=grace_seconds), correlation_id, request)
        except KeyReused as reuse:
            raise _already_made(reuse, request) from None

    async def _replace(
        self,
        old: ApiKey,
        expires_at: datetime | None,
        grace: timedelta,
        correlation_id: str,
        request: IdempotentRequest | None,
    ) -> IssuedKey:
        now = self._now()
        ended = old.expires_at is not None and old.expires_at <= now
        secret = new_secret()
        successor = replace(
            old,
            id=new_id(),
            prefix=secret.prefix,
            created_at=now,
            expires_at=expires_at or _same_lifetime(old, now),
        )
        if ended or not await self._store.replace_key(
            old,
            successor,
            secret.digest,
            old_expires_at=now + grace,
            correlation_id=correlation_id,
            request=request,
        ):
            raise Conflict("The API key is expired, revoked or rotated already.")
        return IssuedKey(successor, secret.text)

    async def _changeable(self, writer: Identity, key_id: str) -> ApiKey:
        key = await self.find(writer.company_id, key_id)
        if key is None or not writer.may_write_of(key.user_id):
            raise NotFound("There is no API key with this id.")
        return key


def _same_lifetime(old: ApiKey, now: datetime) -> datetime | None:
    return None if old.expires_at is None else now + (old.expires_at - old.created_at)


def _check_within(identity: Identity, scopes: frozenset[str]) -> None:
    beyond = sorted(scopes - identity.scopes)
    if beyond:
        raise PermissionDenied(f"A key cannot be given scopes that its maker lacks: {', '.join(beyond)}.")


def _limit_within(own: int | None, wanted: int | None) -> int | None:
    if wanted is None:
        return own
    if own is not None and wanted > own:
        raise PermissionDenied(f"A key cannot be given a rate limit above its maker's own, {own} a minute.")
    return wanted


def _already_made(reuse: KeyReused, request: IdempotentRequest | None) -> Conflict | OtherBody:
    if request is not None and request.body_hash != reuse.body_hash:
        return OtherBody()
    return Conflict(
        f"This request has made the API key {reuse.entity_id} already. Its secret was shown once and is not kept;"
        " if it is lost, revoke that key and make another."
    )
