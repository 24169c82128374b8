"""JSON for columns of PostgreSQL."""

from typing import Any, Final

import orjson

_NUL: Final = b"\\u0000"
_REPLACEMENT: Final = b"\\ufffd"
_ESCAPED_BACKSLASH: Final = b"\\\\"


def as_json(value: Any) -> str:
    """JSON for the database. PostgreSQL's text has no NUL character: it becomes U+FFFD, as decoders do."""
    data = orjson.dumps(value)
    if _NUL in data:
        parts = data.split(_ESCAPED_BACKSLASH)
        data = _ESCAPED_BACKSLASH.join(part.replace(_NUL, _REPLACEMENT) for part in parts)
    return data.decode()


def embedded_json(document: bytes) -> orjson.Fragment | str:
    """The document as a value within a JSON parameter of many rows: a column of type ``text`` reads it as it is.

    PostgreSQL unescapes what it reads and refuses NUL; within a string the escape itself is escaped. Documents that
    are no objects would lose their quotes.
    """
    return orjson.Fragment(document) if document.startswith(b"{") and _NUL not in document else document.decode()
