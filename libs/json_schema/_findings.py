"""Validates a value with a compiled schema."""

from itertools import islice
from typing import Any, Final

import jsonschema_rs

_LONGEST_MESSAGE: Final = 300
# This limits patterns with look-around or backreferences. Other patterns run in linear time.
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000)


def validator_of(schema: dict[str, Any]) -> Any:
    """Compiles a schema. Raises the same errors as ``jsonschema_rs.validator_for``."""
    return jsonschema_rs.validator_for(schema, offline=True, pattern_options=_PATTERNS)


def findings(validator: Any, value: Any, *, name: str, most: int) -> list[str]:
    """Describes up to ``most`` mismatches, each with its path. ``name`` stands for the path of the value itself."""
    return [
        f"{'.'.join(str(part) for part in error.instance_path) or name}: {shortened(error.message)}"
        for error in islice(validator.iter_errors(value), most)
    ]


def shortened(message: str) -> str:
    return message if len(message) <= _LONGEST_MESSAGE else message[: _LONGEST_MESSAGE - 1] + "…"
