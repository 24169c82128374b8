"""Secrets of API keys: made here, shown once, kept only as a digest."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from typing import Final

_MARK: Final = "aes_"
_PREFIX_LENGTH: Final = len(_MARK) + 8
_FORM: Final = re.compile(r"aes_[A-Za-z0-9_-]{43}")


@dataclass(frozen=True, slots=True)
class Secret:
    """A new secret. ``prefix`` is what people recognise the key by; ``digest`` is all that is stored."""

    text: str
    prefix: str
    digest: bytes


def new_secret() -> Secret:
    """A secret of 256 random bits: no salt or slow hash is needed, guessing is hopeless."""
    text = _MARK + secrets.token_urlsafe(32)
    return Secret(text, text[:_PREFIX_LENGTH], digest_of(text))


def digest_of(text: str) -> bytes:
    """SHA-256, by which a key is found."""
    return hashlib.sha256(text.encode()).digest()


def has_form(text: str) -> bool:
    """Whether the text can be a secret of ours; any other is refused without asking the database."""
    return _FORM.fullmatch(text) is not None
