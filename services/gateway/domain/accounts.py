"""Companies, users, their API keys, and the principal of a request."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from libs.contracts.identity import Identity, Scope
from services.gateway.domain.connections import PublicUse

ALL_SCOPES: Final = frozenset(scope.value for scope in Scope)
DEFAULT_RATE_LIMIT: Final = 600
"""Requests a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """``rate_limit`` is the default of new keys: requests a minute, ``None`` for no limit."""

    id: str
    name: str
    rate_limit: int | None
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    id: str
    company_id: str
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key without its secret. ``rate_limit`` counts requests a minute, ``None`` for no limit.

    A rotated key names its ``successor_id`` and expires at the end of the grace period.
    """

    id: str
    company_id: str
    user_id: str
    name: str
    prefix: str
    scopes: frozenset[str]
    rate_limit: int | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None = None
    successor_id: str | None = None

    def state(self, now: datetime) -> Literal["valid", "expired", "revoked"]:
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "valid"


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOwner:
    """A key with the names of its company and user."""

    key: ApiKey
    company_name: str
    user_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller of a request; the same object for every request of a cached key.

    ``expires_at`` and ``rate_limit`` as on the key. ``public`` is set for a public principal: anybody who opens a web
    page with the key in it.
    """

    identity: Identity
    expires_at: datetime | None
    rate_limit: int | None
    public: PublicUse | None = None
