"""Parses JSON, and rejects values that can't be stored or sent."""

import json
import math
from collections.abc import Sequence
from typing import Any, Final

from libs.contracts.errors import ErrorDetail, InvalidRequest, ValidationFailed, invalid_field
from libs.contracts.findings import MOST_DETAILS, shortened

MAX_DEPTH: Final = 64
_MAX_INTEGER: Final = 2**63 - 1


def parse_json(text: str) -> Any:
    """Raises ``InvalidRequest`` for invalid JSON, and ``ValidationFailed`` for values that can't be stored."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError) as problem:
        raise InvalidRequest(f"Invalid JSON body: {_reason(problem)}.") from None
    if "\\u" in text or text.count("[") + text.count("{") > MAX_DEPTH:
        check_values(value)
    return value


def parse_integer(text: str) -> int:
    """Raises ``ValidationFailed`` for a number that needs more than 64 bits, which the database can't store."""
    value = int(text) if len(text) <= 20 else _MAX_INTEGER + 1
    if abs(value) > _MAX_INTEGER:
        raise out_of_range()
    return value


def parse_number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise out_of_range()
    return value


def out_of_range() -> ValidationFailed:
    return invalid_field([], "a number is too large", kind="number_out_of_range", hint="use at most 64 bits")


def check_values(value: Any) -> None:
    """Raises ``InvalidRequest`` for unpaired surrogates or deep nesting, and ``ValidationFailed`` for NULs."""
    found: list[ErrorDetail] = []
    _check(value, [], found)
    if found:
        raise ValidationFailed("The body contains characters that can't be stored.", details=found)


def _check(value: Any, path: list[str | int], found: list[ErrorDetail]) -> None:
    if isinstance(value, str):
        _check_text(value, path, found)
        return
    if len(path) > MAX_DEPTH:
        raise InvalidRequest(f"The body is nested deeper than {MAX_DEPTH} levels.")
    if not isinstance(value, dict | list):
        return
    for key, child in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(key, str):
            _check_text(key, path, found)
        # Shares one path object: a body may have a hundred thousand empty lists, each at a different path.
        path.append(key)
        _check(child, path, found)
        path.pop()


def _check_text(text: str, loc: Sequence[str | int], found: list[ErrorDetail]) -> None:
    if "\0" in text and len(found) < MOST_DETAILS:
        location = [part.replace("\0", "\ufffd") if isinstance(part, str) else part for part in shortened(loc)]
        message = "the text contains a NUL character"
        found.append(ErrorDetail(loc=location, type="null_character", message=message, hint="remove it"))
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidRequest("The body contains an unpaired UTF-16 surrogate.")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} isn't valid JSON")


def _reason(problem: Exception) -> str:
    if isinstance(problem, RecursionError):
        return "it's nested too deeply"
    if isinstance(problem, json.JSONDecodeError):
        return f"{problem.msg} at line {problem.lineno} column {problem.colno}"
    return str(problem)


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_constant=_refuse_constant,
    parse_int=parse_integer,
    parse_float=parse_number,
)
