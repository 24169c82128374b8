"""Companies, users, their API keys, and who is found behind a request."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from libs.contracts.identity import Identity, Scope
from services.gateway.domain.connections import PublicUse

ALL_SCOPES: Final = frozenset(scope.value for scope in Scope)
DEFAULT_RATE_LIMIT: Final = 600
"""Requests a minute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """``rate_limit`` is what new keys of the company get: requests a minute, ``None`` for no limit."""

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
    """What is stored of a key. ``rate_limit`` counts requests a minute, ``None`` for no limit.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyOwner:
    """A key with the names of whom it belongs to."""

    key: ApiKey
    company_name: str
    user_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller of a request; the same object for every request of a cached key.

    ``expires_at`` and ``rate_limit`` as on the key. ``public``: set when the key stands in web pages, so that the
    caller is some visitor.
    """

    identity: Identity
    expires_at: datetime | None
    rate_limit: int | None
    public: PublicUse | None = None
