"""Parses JSON and JSON Lines."""

import json
import re
from typing import Any, Final

from libs.documents._errors import DocumentUnreadable

# Python refuses to convert longer integers.
_INTEGER_DIGITS: Final = 4_000
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPED_SURROGATE: Final = re.compile(r"\\ud[89a-f]", re.IGNORECASE)


def read_json(text: str) -> Any:
    """Parses a JSON document, or returns the values of JSON Lines as a list. Raises ``DocumentUnreadable``.

    An integer of more than 4,000 digits becomes text. An unpaired surrogate becomes U+FFFD.
    """
    text = text.removeprefix("\ufeff")
    try:
        value = _value(text)
    except RecursionError:
        raise DocumentUnreadable("Invalid JSON file: it's nested too deeply.") from None
    except ValueError as problem:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            if len(lines) < 2:
                raise ValueError
            value = [_value(line) for line in lines]
        except (ValueError, RecursionError):
            raise DocumentUnreadable(f"Invalid JSON file: {problem}.") from None
    return _without_surrogates(value) if _ESCAPED_SURROGATE.search(text) else value


def _value(text: str) -> Any:
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _INTEGER_DIGITS else digits


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\N{REPLACEMENT CHARACTER}", value)
    if isinstance(value, list):
        return [_without_surrogates(each) for each in value]
    if isinstance(value, dict):
        return {_without_surrogates(name): _without_surrogates(each) for name, each in value.items()}
    return value
