"""Parses JSON and JSON Lines."""

import json
import re
from typing import Any, Final

from libs.documents._errors import DocumentUnreadable
from libs.json_text import without_half_pairs_in

# Python refuses to convert longer integers.
_INTEGER_DIGITS: Final = 4_000
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
    return without_half_pairs_in(value) if _ESCAPED_SURROGATE.search(text) else value


def _value(text: str) -> Any:
    return json.loads(text, parse_int=_integer)


def _integer(digits: str) -> int | str:
    return int(digits) if len(digits) <= _INTEGER_DIGITS else digits
