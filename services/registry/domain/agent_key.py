"""The public key of an agent: a slug of its name, unique over all companies."""

import re
import secrets
from collections.abc import Iterator
from typing import Final

from anyascii import anyascii

_SEPARATORS: Final = re.compile(r"[^a-z0-9]+")
_APOSTROPHES: Final = re.compile(r"['`]")
_MAX_LENGTH: Final = 60
_NO_SLUG: Final = "agent"
# No vowels, so that no word comes about, and nothing that looks like something else.
_SUFFIX_ALPHABET: Final = "bcdfghjkmnpqrstvwxz23456789"
_SUFFIX_LENGTH: Final = 6


def slug(name: str) -> str:
    """The name in lower-case ASCII words joined by hyphens; other scripts are transliterated."""
    ascii_name = _APOSTROPHES.sub("", anyascii(name)).lower()
    words = _SEPARATORS.sub("-", ascii_name).strip("-")
    return words[:_MAX_LENGTH].rstrip("-") or _NO_SLUG


def candidates(name: str) -> Iterator[str]:
    """Keys to try for a new agent, without end: the slug of its name with a random suffix.

    Every key has one: a suffix that is there only when another company has the bare slug would reveal that it does, and
    a count how many have (docs/decisions/0008).
    """
    base = slug(name)
    while True:
        suffix = "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(_SUFFIX_LENGTH))
        yield f"{base}-{suffix}"
