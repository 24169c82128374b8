"""Validates a value against a schema, in this process or in a separate one with resource limits."""

from itertools import islice
from typing import Any, Final

import jsonschema_rs

from libs.confined import OutOfMemory, ProcessKilled, answer_job, run_confined

_LONGEST_MESSAGE: Final = 300
# This limits patterns with look-around or backreferences. Other patterns run in linear time.
_PATTERNS: Final = jsonschema_rs.FancyRegexOptions(backtrack_limit=50_000)
_SECONDS: Final = 5.0
_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_MODULE: Final = "libs.json_schema._validation"


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


async def findings_apart(schema: dict[str, Any], value: Any, *, name: str, most: int) -> list[str]:
    """Validates in a separate process. If the process exceeds a limit, the only finding says so."""
    job = {"schema": schema, "value": value, "name": name, "most": most}
    try:
        answer = await run_confined(_MODULE, job, seconds=_SECONDS, memory_bytes=_MEMORY_BYTES)
    except (TimeoutError, OutOfMemory, ProcessKilled):
        return [f"{name}: validation against the schema takes too much time or memory"]
    found: list[str] = answer["findings"]
    return found


def _find(job: dict[str, Any]) -> dict[str, Any]:
    return {"findings": findings(validator_of(job["schema"]), job["value"], name=job["name"], most=job["most"])}


if __name__ == "__main__":
    answer_job(_find)
