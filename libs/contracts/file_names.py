"""Sanitizes the names of uploaded files, so that they're valid on every operating system."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

from libs.contracts.errors import ErrorDetail, ValidationFailed

_LONGEST_BYTES: Final = 240
# Control characters, characters that reverse or hide text, and unpaired surrogates.
_INVISIBLE: Final = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_RESERVED: Final = re.compile(r'[<>:"|?*]')
_DEVICES: Final = frozenset(
    {"con", "prn", "aux", "nul", *(f"com{n}" for n in range(10)), *(f"lpt{n}" for n in range(10))}
)


def safe_name(given: str) -> str:
    """Returns the last part of a path as a file name that every system accepts, at most 240 bytes long.

    Raises ``ValidationFailed`` if the last part has no visible characters.
    """
    last = re.split(r"[/\\]", given)[-1]
    name = _RESERVED.sub("_", unicodedata.normalize("NFC", _INVISIBLE.sub("", last))).strip().rstrip(". ")
    if not name:
        detail = ErrorDetail(loc=["file"], type="file_name_missing", message="must have a name", hint='filename="…"')
        raise ValidationFailed("The file has no name.", details=[detail])
    stem, dot, extension = name.rpartition(".")
    if not dot:
        stem, extension = name, ""
    stem = stem.strip().lstrip(".") or "file"
    if stem.partition(".")[0].strip().lower() in _DEVICES:
        stem = f"_{stem}"
    ending = f"{dot}{extension}" if len(extension) <= 20 else ""
    return _shortened(stem, _LONGEST_BYTES - len(ending.encode())) + ending


def distinct(names: Iterable[str]) -> Iterator[str]:
    """Yields the names. Numbers names that repeat an earlier name, ignoring case: ``a.txt``, ``A (2).txt``."""
    taken: set[str] = set()
    for name in names:
        stem, dot, extension = name.rpartition(".")
        if not dot:
            stem, extension = name, ""
        chosen, number = name, 1
        while chosen.casefold() in taken:
            number += 1
            chosen = f"{stem} ({number}){dot}{extension}"
        taken.add(chosen.casefold())
        yield chosen


def _shortened(text: str, most_bytes: int) -> str:
    """Truncates text to ``most_bytes`` of UTF-8, without splitting a character."""
    return text.encode()[:most_bytes].decode(errors="ignore").rstrip(". ") or "file"
