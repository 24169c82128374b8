"""Handles unpaired UTF-16 surrogates, which UTF-8 can't encode."""

import re
from typing import Any, Final

_HALF: Final = re.compile("[\ud800-\udfff]")
_HALF_ESCAPE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPE: Final = re.compile(
    rb"\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


def without_half_pairs(text: str) -> str:
    """Joins surrogate pairs and replaces unpaired surrogates with U+FFFD."""
    if text.isascii() or _HALF.search(text) is None:
        return text
    return text.encode("utf-16-le", errors="surrogatepass").decode("utf-16-le", errors="replace")


def without_half_pairs_in(value: Any) -> Any:
    """Applies ``without_half_pairs`` to all strings in a JSON value, including member names."""
    if isinstance(value, str):
        return without_half_pairs(value)
    if isinstance(value, list):
        return [without_half_pairs_in(item) for item in value]
    if isinstance(value, dict):
        return {without_half_pairs(name): without_half_pairs_in(item) for name, item in value.items()}
    return value


def without_half_escapes(document: bytes) -> bytes:
    """Decodes surrogate pairs that are escaped in JSON text, and replaces unpaired escapes with U+FFFD."""
    return document if _HALF_ESCAPE.search(document) is None else _ESCAPE.sub(_character, document)


def _character(escape: re.Match[bytes]) -> bytes:
    if escape[3] is not None:
        return "\N{REPLACEMENT CHARACTER}".encode()
    if escape[1] is None:
        return escape[0]
    return without_half_pairs(chr(int(escape[1], 16)) + chr(int(escape[2], 16))).encode()


class PairedText:
    """Joins surrogate pairs that are split between pieces of text."""

    def __init__(self) -> None:
        self._first_half = ""

    def take(self, piece: str) -> str:
        """Returns the text up to the end of this piece. Half a pair at the end waits for the next piece."""
        text = self._first_half + piece
        self._first_half = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return without_half_pairs(text[:-1] if self._first_half else text)

    def finish(self) -> str:
        """Returns the text that remains after the last piece."""
        rest, self._first_half = self._first_half, ""
        return without_half_pairs(rest)
