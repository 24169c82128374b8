"""Secrets of API keys, of which only a digest is stored, and bearer tokens."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final

_MARK: Final = "aes_"
_PREFIX_LENGTH: Final = len(_MARK) + 8
_FORM: Final = re.compile(r"aes_[A-Za-z0-9_-]{43}")
LONGEST_SECONDS: Final = 3600
"""The longest life of a bearer token."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A new secret. People recognise the key by its ``prefix``; only the ``digest`` is stored."""

    text: str
    prefix: str
    digest: bytes


def new_secret() -> Secret:
    """Makes 256 random bits, so that the digest needs no salt or slow hash."""
    text = _MARK + secrets.token_urlsafe(32)
    return Secret(text, text[:_PREFIX_LENGTH], digest_of(text))


def digest_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def has_form(text: str) -> bool:
    """Whether the text has the form of a secret; any other is refused without asking the database."""
    return _FORM.fullmatch(text) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGrant:
    """The rights of a bearer token: never more than its key has at the moment, and never for longer."""

    key_id: str
    scopes: frozenset[str]
    expires_at: datetime
