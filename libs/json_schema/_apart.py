"""Validates a value against a schema in a separate process with resource limits."""

from typing import Any, Final

import jsonschema_rs

from libs.confined import OutOfMemory, ProcessKilled, answer_job, run_confined
from libs.json_schema._findings import findings, validator_of

_SECONDS: Final = 5.0
_MEMORY_BYTES: Final = 1024 * 1024 * 1024
_MODULE: Final = "libs.json_schema._apart"


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
    validator: jsonschema_rs.Validator = validator_of(job["schema"])
    return {"findings": findings(validator, job["value"], name=job["name"], most=job["most"])}


if __name__ == "__main__":
    answer_job(_find)
