"""Keeps "&", "<" and ">" in Word documents: kreuzberg 4.10 drops every XML entity of their text.

Entities become characters of a private use area before the extraction and what they stand for after it.
"""

import io
import re
import zipfile
from pathlib import Path

_ENTITY = re.compile(rb"&(amp|lt|gt|quot|apos|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});")
_NAMED = {b"amp": "&", b"lt": "<", b"gt": ">", b"quot": '"', b"apos": "'"}
_PLACEHOLDERS = {sign: chr(0xF8D0 + place) for place, sign in enumerate(_NAMED.values())}
_BACK = str.maketrans({placeholder: sign for sign, placeholder in _PLACEHOLDERS.items()})


def guard_entities(path: Path) -> bytes | None:
    """The package with its entities replaced; None when it holds none."""
    found = False
    guarded = io.BytesIO()
    with zipfile.ZipFile(path) as package, zipfile.ZipFile(guarded, "w") as copy:
        for member in package.infolist():
            content = package.read(member)
            if member.filename.startswith("word/") and member.filename.endswith(".xml") and b"&" in content:
                content, replaced = _ENTITY.subn(_guarded, content)
                found = found or replaced > 0
            copy.writestr(member.filename, content)
    return guarded.getvalue() if found else None


def restore_entities(text: str) -> str:
    return text.translate(_BACK)


def _guarded(entity: re.Match[bytes]) -> bytes:
    name = entity.group(1)
    sign = _NAMED.get(name) or _numbered(name[1:])
    return _PLACEHOLDERS.get(sign, sign).encode("utf-8", "replace")


def _numbered(name: bytes) -> str:
    code = int(name[1:], 16) if name[:1] in b"xX" else int(name)
    return chr(code) if 0x20 <= code <= 0x10FFFF else " "
