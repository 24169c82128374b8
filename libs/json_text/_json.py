"""Reads and writes JSON with orjson, or with the standard library if orjson rejects or rounds the value."""

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

import orjson

from libs.json_text._surrogates import without_half_pairs_in

# Integers that need more than 64 bits have at least this many digits.
_LONG_INTEGER: Final = re.compile(rb"[0-9]{19}")
_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1


class NotJson(ValueError):
    """The text isn't valid JSON."""


def read_json(text: bytes | str, *, nan_as_null: bool = False, keep_half_pairs: bool = False) -> Any:
    """Parses JSON. Raises NotJson.

    With ``nan_as_null``, NaN and infinities are read as null instead of raising NotJson. With ``keep_half_pairs``,
    unpaired surrogates are kept, since their other half may follow in the next document.
    """
    data = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        refusal = str(problem)
    else:
        if _LONG_INTEGER.search(data) is None:
            return value
        refusal = "an integer has too many digits"
    try:
        value = _exact(data, _null if nan_as_null else _refused)
        return value if keep_half_pairs else without_half_pairs_in(value)
    except (ValueError, RecursionError):
        raise NotJson(refusal) from None


def _exact(data: bytes, constant: Callable[[str], Any]) -> Any:
    """Parses JSON with full precision. Raises ValueError and RecursionError.

    ``constant`` converts NaN, infinities and numbers beyond the range of floats.
    """

    def number(digits: str) -> Any:
        value = float(digits)
        return value if math.isfinite(value) else constant(digits)

    return json.loads(_decoded(data), parse_float=number, parse_constant=constant)


def _decoded(data: bytes) -> str:
    try:
        return data.decode(errors="surrogatepass")
    except UnicodeDecodeError:
        return data.decode(errors="replace")


def _null(_name: str) -> None:
    return None


def _refused(name: str) -> NoReturn:
    raise ValueError(f"{name[:50]} isn't a JSON number")


def write_json(value: Any, *, sort_keys: bool = False) -> bytes:
    """Encodes a value as JSON. Raises TypeError if JSON can't represent it."""
    option = orjson.OPT_SORT_KEYS if sort_keys else None
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        # orjson has no hook for integers that it rejects.
        try:
            return orjson.dumps(_with_written_integers(value), option=option)
        except RecursionError:
            raise TypeError("the value is nested too deeply") from None


def _with_written_integers(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_written_integers(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_written_integers(item) for item in value]
    if isinstance(value, int) and not _LEAST <= value <= _MOST:
        return orjson.Fragment(str(value))
    return value


def is_deeper(value: Any, levels: int) -> bool:
    """Returns whether the value's objects and lists are nested more than ``levels`` deep."""
    level: list[Any] = [value]
    for _ in range(levels):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
    return any(isinstance(item, dict | list) for item in level)
