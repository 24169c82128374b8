"""Writes JSON with orjson, integers of any size included."""

from typing import Any, Final

import orjson

_LEAST: Final = -(2**63)
_MOST: Final = 2**64 - 1


def write_json(value: Any, *, sort_keys: bool = False) -> bytes:
    """Raises TypeError for what is no JSON."""
    option = orjson.OPT_SORT_KEYS if sort_keys else None
    try:
        return orjson.dumps(value, option=option)
    except TypeError:
        # orjson has no hook for integers that it refuses.
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
