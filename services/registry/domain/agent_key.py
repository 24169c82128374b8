"""The public key of an agent: a slug of its name with a random suffix."""

import re
import secrets
from collections.abc import Iterator
from typing import Final

from anyascii import anyascii

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_APOSTROPHES: Final = re.compile(r"['`]")
_MAX_LENGTH: Final = 60
_NO_SLUG: Final = "agent"
# Excludes characters that are easily confused, and vowels, so that suffixes don't form words.
_SUFFIX_ALPHABET: Final = "bcdfghjkmnpqrstvwxz23456789"
_SUFFIX_LENGTH: Final = 6


def slug(name: str) -> str:
    """Converts a name to lowercase ASCII words joined by hyphens. Other scripts are transliterated."""
    ascii_name = _APOSTROPHES.sub("", anyascii(name)).lower()
    words = _SEPARATORS.sub("-", ascii_name).strip("-")
    return words[:_MAX_LENGTH].rstrip("-") or _NO_SLUG


def candidates(name: str) -> Iterator[str]:
    """Yields possible keys for a new agent: the slug of its name with random suffixes.

    Adding a suffix only after a collision would reveal that another company uses the slug (docs/decisions/0008).
    """
    base = slug(name)
    while True:
        suffix = "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))
        yield f"{base}-{suffix}"
