"""Web origins, which consist of a scheme, a host and an optional port."""

import re
from typing import Final

ORIGIN_PATTERN: Final = r"^[Hh][Tt][Tt][Pp][Ss]?://([A-Za-z0-9-]+\.)*[A-Za-z0-9-]+(:[1-9][0-9]{0,4})?$"
_ORIGIN: Final = re.compile(r"(https?)://((?:[a-z0-9-]+\.)*[a-z0-9-]+)(?::([1-9][0-9]{0,4}))?", re.IGNORECASE)
_USUAL_PORTS: Final = {"http": "80", "https": "443"}
_HIGHEST_PORT: Final = 65535


def is_origin(text: str) -> bool:
    """Returns whether the text is a web origin without a path or trailing slash."""
    match = _ORIGIN.fullmatch(text)
    return match is not None and int(match[3] or 0) <= _HIGHEST_PORT


def canonical_origin(text: str) -> str:
    """Normalizes an origin to the form that browsers send. Raises ``ValueError`` if the text isn't an origin."""
    match = _ORIGIN.fullmatch(text)
    if match is None or int(match[3] or 0) > _HIGHEST_PORT:
        raise ValueError("must be an origin such as https://example.com, without a path or trailing slash")
    scheme, host, port = match[1].lower(), match[2].lower(), match[3]
    return f"{scheme}://{host}" if port in (None, _USUAL_PORTS[scheme]) else f"{scheme}://{host}:{port}"
