"""Recognizes and decodes text in HTTP responses."""

import codecs
import json
import re
from typing import Final

_TEXT_TYPES: Final = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
# Python codecs that take minutes, or produce text that UTF-8 can't encode.
_NO_WEB_CHARSETS: Final = frozenset({"punycode", "idna", "utf-7", "unicode-escape", "raw-unicode-escape"})
_XML_ENCODING: Final = re.compile(rb"""<\?xml[^>]{0,100}\sencoding\s*=\s*["']([A-Za-z0-9._-]{1,40})["']""")


def is_text(content_type: str) -> bool:
    return content_type.startswith("text/") or content_type in _TEXT_TYPES or content_type.endswith(("+json", "+xml"))


def is_json(content_type: str) -> bool:
    return content_type == "application/json" or content_type.endswith("+json")


def decoded(body: bytes, charset: str | None, *, cut: bool = False, errors: str = "replace") -> str:
    """Decodes text. A byte order mark takes precedence over the response's `charset`, and is removed.

    If `cut` is set, the last character may be incomplete. Raises UnicodeDecodeError if `errors` is "strict".
    """
    try:
        text = body.decode(_encoding(body, charset), errors)
    except LookupError:
        text = body.decode("utf-8", errors)
    if cut:
        text = text.rstrip("\N{REPLACEMENT CHARACTER}")
    # PostgreSQL can't store NUL in text.
    return text.removeprefix("\ufeff").replace("\x00", "\N{REPLACEMENT CHARACTER}")


def _encoding(body: bytes, charset: str | None) -> str:
    # Byte order marks and the zeros in UTF-16 and UTF-32 identify the encoding of any text, not only JSON.
    if (seen := json.detect_encoding(body)) != "utf-8":
        return seen
    if charset is None and (declared := _XML_ENCODING.match(body)):
        charset = declared[1].decode()
    if charset is None or codecs.lookup(charset).name in _NO_WEB_CHARSETS:
        return "utf-8"
    return charset
