"""Paths that an HTTP client resolves, so that it would ask for something else than what was meant."""

import re
from collections.abc import AsyncIterator
from typing import Final

import orjson

from libs.contracts.errors import NotFound

_DOTS: Final = re.compile(r"/(\.|%2e){1,2}(?=[/?#]|\Z)", re.IGNORECASE)
_ERROR: Final = NotFound("There is nothing by this name.").info()
NOTHING: Final = orjson.dumps({"error": _ERROR.model_dump(exclude_none=True)})
"""The body of the answer to such a path."""


def has_dots(path: str) -> bool:
    """Whether a name in the path is ``.`` or ``..``, which quoting leaves as they are."""
    return _DOTS.search(path) is not None


async def nothing() -> AsyncIterator[bytes]:
    yield NOTHING
