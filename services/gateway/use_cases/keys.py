"""Manages API keys and issues bearer tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import structlog

from libs.contracts.errors import Conflict, NotFound
from libs.contracts.identifiers import is_id, new_id
from libs.contracts.identity import INSTALLATION_SCOPES, Identity
from libs.contracts.pages import Page
from libs.contracts.resources.keys import CreateKeyBody
from libs.contracts.resources.tokens import TokenBody, TokenReply
from libs.contracts.timestamps import format_time
from libs.quotas import CompanyLimits
from services.gateway.domain.accounts import (
    ApiKey,
    Principal,
    TokenGrant,
    check_scopes,
    expiry,
    limit_within,
    new_secret,
)
from services.gateway.domain.idempotency import KeyReused, Write
from services.gateway.domain.limits import API_KEYS
from services.gateway.domain.ports import KeyStore
from services.gateway.domain.tokens import JwtTokens

DEFAULT_LIFETIME: Final = timedelta(days=90)
_BEYOND: Final = "A key can't have scopes that its creator lacks"
_ABOVE: Final = "A key can't have a higher rate limit than its creator"
_log = structlog.get_logger("tokens")


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key and its secret, which isn't stored and so can't be shown again."""

    key: ApiKey
    secret: str


@dataclass(frozen=True, slots=True)
class Keys:
    """Creates, rotates and revokes keys. ``forget`` is called with the ID of each revoked key.

    ``limits``: the companies' limits, or None for operators, who are exempt.
    """

    store: KeyStore
    now: Callable[[], datetime]
    limits: CompanyLimits | None = None
    forget: Callable[[str], None] = lambda _: None

    async def page(self, reader: Identity, **page: Any) -> Page[ApiKey]:
        return await self.store.keys(reader, **page)

    async def create(self, write: Write, maker: Principal, wanted: CreateKeyBody) -> IssuedKey:
        """Creates a key. Raises ``PermissionDenied`` for scopes or a rate limit beyond the caller's own."""
        identity, now = maker.identity, self.now()
        scopes = identity.scopes - INSTALLATION_SCOPES if wanted.scopes is None else frozenset(wanted.scopes)
        expires_at = expiry(wanted.expires_at, now) or now + DEFAULT_LIFETIME
        check_scopes(scopes, identity.scopes, _BEYOND)
        return await self.issue(
            write,
            identity.company_id,
            identity.user_id,
            name=wanted.name,
            scopes=scopes,
            expires_at=expires_at,
            rate_limit=limit_within(maker.rate_limit, wanted.rate_limit, _ABOVE),
        )

    async def issue(
        self,
        write: Write,
        company_id: str,
        user_id: str,
        *,
        name: str,
        scopes: frozenset[str],
        expires_at: datetime | None,
        rate_limit: int | None,
    ) -> IssuedKey:
        """Creates a key, without checking whether the caller may grant these scopes and this rate limit."""
        secret = new_secret()
        key = ApiKey(
            id=new_id(),
            company_id=company_id,
            user_id=user_id,
            name=name,
            prefix=secret.prefix,
            scopes=scopes,
            rate_limit=rate_limit,
            created_at=self.now(),
            expires_at=expires_at,
        )
        try:
            await self.store.add_key(key, secret.digest, write, most=self._most(company_id))
        except KeyReused as reuse:
            raise _already_made(reuse, write) from None
        return IssuedKey(key, secret.text)

    async def rotate(self, write: Write, key_id: str, *, expires_at: datetime | None, grace_seconds: int) -> IssuedKey:
        """Replaces a key with a new key that has the same rights. The old key stays valid for ``grace_seconds``.

        Without ``expires_at``, the new key has the same lifetime as the old key. Raises ``Conflict`` if the old key is
        already revoked, expired or rotated.
        """
        old = await self._changeable(write.identity, key_id)
        # Otherwise, anyone with keys:write could get a secret with the scopes of someone else's key.
        check_scopes(old.scopes, write.identity.scopes, _BEYOND)
        now, secret = self.now(), new_secret()
        successor = replace(
            old,
            id=new_id(),
            prefix=secret.prefix,
            created_at=now,
            expires_at=expires_at or _same_lifetime(old, now),
        )
        ends = now + timedelta(seconds=grace_seconds)
        # Old keys count during their grace period, but a company at its limit must still be able to rotate each key.
        most = self._most(old.company_id)
        try:
            if old.state(now) != "expired" and await self.store.replace_key(
                old, successor, secret.digest, write, old_expires_at=ends, most=None if most is None else 2 * most
            ):
                return IssuedKey(successor, secret.text)
        except KeyReused as reuse:
            raise _already_made(reuse, write) from None
        raise Conflict("The API key is already expired, revoked or rotated. Create a new key.")

    async def revoke(self, write: Write, key_id: str) -> None:
        key = await self._changeable(write.identity, key_id)
        await self.store.revoke_key(key, write, at=self.now())
        # Takes effect on this replica immediately, without waiting for the event.
        self.forget(key.id)

    async def _changeable(self, writer: Identity, key_id: str) -> ApiKey:
        key = await self.store.key(writer.company_id, key_id) if is_id(key_id) else None
        if key is None or not writer.may_write_of(key.user_id):
            raise NotFound("There is no API key with this ID.")
        return key

    def _most(self, company_id: str) -> int | None:
        return None if self.limits is None else self.limits.of(company_id, API_KEYS)


def issue_token(tokens: JwtTokens, caller: Principal, wanted: TokenBody, now: datetime) -> TokenReply:
    """Issues a bearer token, which expires no later than its key. Raises ``PermissionDenied`` for scopes that the key
    lacks.
    """
    identity = caller.identity
    granted = identity.scopes if wanted.scopes is None else frozenset(wanted.scopes)
    check_scopes(granted, identity.scopes, "A token can't have scopes that its key lacks")
    now = now.replace(microsecond=0)
    ends = now + timedelta(seconds=wanted.expires_in)
    if caller.expires_at is not None:
        ends = min(ends, caller.expires_at.replace(microsecond=0))
    grant = TokenGrant(key_id=identity.key_id, scopes=granted, expires_at=ends)
    _log.info("token.issued", key_id=identity.key_id, user_id=identity.user_id, expires_at=ends.isoformat())
    return TokenReply(
        access_token=tokens.encode(grant),
        expires_in=int((ends - now).total_seconds()),
        expires_at=format_time(ends),
        scopes=sorted(granted),
    )


def _same_lifetime(old: ApiKey, now: datetime) -> datetime | None:
    return None if old.expires_at is None else now + (old.expires_at - old.created_at)


def _already_made(reuse: KeyReused, write: Write) -> Conflict:
    reuse.require_same_body(write)
    return Conflict(
        f"This request already created the API key {reuse.entity_id}. Its secret is shown only once; if it's lost,"
        " revoke the key and create another."
    )
