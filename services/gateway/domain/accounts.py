"""Companies, users, API keys and bearer tokens, and the principal of a request."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from libs.contracts.errors import ErrorDetail, PermissionDenied, ValidationFailed
from libs.contracts.identity import INSTALLATION_SCOPES, Identity, Scope
from libs.contracts.timestamps import parse_time
from services.gateway.domain.connections import PublicUse

ALL_SCOPES: Final = frozenset(scope.value for scope in Scope if scope not in INSTALLATION_SCOPES)
"""All scopes that apply within a single company."""
OPERATOR_SCOPES: Final = ALL_SCOPES | frozenset(scope.value for scope in INSTALLATION_SCOPES)
"""All scopes, including those for the whole installation."""
DEFAULT_RATE_LIMIT: Final = 600
"""The rate limit of new companies, in requests per minute."""
LONGEST_LIFETIME: Final = timedelta(days=3650)
_MARK: Final = "aes_"
_PREFIX_LENGTH: Final = len(_MARK) + 8
_FORM: Final = re.compile(r"aes_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Company:
    """A customer's company. ``rate_limit``: the default for new keys in requests per minute, or None for no limit."""

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
    """An API key without its secret. ``rate_limit``: requests per minute, or None for no limit.

    ``successor_id``: the key that replaced this one in a rotation.
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
    """An API key, and the names of its company and user."""

    key: ApiKey
    company_name: str
    user_name: str


@dataclass(frozen=True, slots=True)
class Secret:
    """A newly generated secret. Only its ``digest`` is stored, with a ``prefix`` by which people recognize the key."""

    text: str
    prefix: str
    digest: bytes


def new_secret() -> Secret:
    """Generates a secret with 256 random bits, so that its digest needs neither a salt nor a slow hash function."""
    text = _MARK + secrets.token_urlsafe(32)
    return Secret(text, text[:_PREFIX_LENGTH], digest_of(text))


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def is_secret(text: str) -> bool:
    """Returns whether the string is an API key rather than a bearer token."""
    return text.startswith(_MARK)


def has_form(text: str) -> bool:
    """Returns whether the string looks like an API key."""
    return _FORM.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGrant:
    """The rights of a bearer token. Scopes that the key no longer has don't count."""

    key_id: str
    scopes: frozenset[str]
    expires_at: datetime


def check_scopes(wanted: frozenset[str], own: frozenset[str], refusal: str) -> None:
    """Raises ``PermissionDenied`` for scopes that the caller lacks. The message starts with ``refusal``."""
    if beyond := sorted(wanted - own):
        raise PermissionDenied(f"{refusal}: {', '.join(beyond)}.")


def limit_within(own: int | None, wanted: int | None, refusal: str) -> int | None:
    """Returns the rate limit of a new credential, which defaults to its creator's ``own`` limit.

    Raises ``PermissionDenied`` for a higher limit. The message starts with ``refusal``.
    """
    if own is not None and wanted is not None and wanted > own:
        raise PermissionDenied(f"{refusal} ({own} requests per minute).")
    return own if wanted is None else wanted


def expiry(text: str | None, now: datetime) -> datetime | None:
    """Parses ``expires_at``. Raises ``ValidationFailed`` for a time in the past or more than ten years away."""
    if text is None:
        return None
    moment = parse_time(text)
    if not now < moment < now + LONGEST_LIFETIME:
        message = f"must be in the future, at most {LONGEST_LIFETIME.days} days from now"
        detail = ErrorDetail(loc=["expires_at"], type="moment_range", message=message, hint="use another time")
        raise ValidationFailed(f"Invalid body: expires_at {message}.", details=[detail])
    return moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Principal:
    """The authenticated caller of a request.

    ``expires_at``: when the key or bearer token expires. ``public``: set for callers with a public key.
    """

    identity: Identity
    expires_at: datetime | None
    rate_limit: int | None
    public: PublicUse | None = None
