from dataclasses import dataclass
from typing import Any, Final

import jsonschema_rs
import orjson

from libs.json_schema._effort import Effort, effort_of
from libs.json_schema._validation import findings, findings_apart, shortened, validator_of
from libs.json_text import is_deeper

MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 32
MAX_ALTERNATIVES: Final = 1000
_EFFORT_HERE: Final = 50_000
"""This many schemas can be applied within a tenth of a second."""


class SchemaInvalid(ValueError):
    """The schema can't be used. ``path`` is the location of the error in the schema."""

    def __init__(self, message: str, path: tuple[str | int, ...] = ()) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    schema: dict[str, Any]
    validator: Any
    effort: Effort

    async def problems(self, value: Any, *, name: str = "value", most: int = 5) -> list[str]:
        """Describes up to ``most`` mismatches, each with its path. ``name`` stands for the path of the value itself.

        Expensive checks run in a separate process, since nested alternatives could block this process for minutes.
        """
        if self.effort.of(value) > _EFFORT_HERE:
            return await findings_apart(self.schema, value, name=name, most=most)
        return findings(self.validator, value, name=name, most=most)


def compile_schema(schema: dict[str, Any]) -> CompiledSchema:
    """Compiles a schema of draft 4 to 2020-12. ``$schema`` declares the draft, which defaults to 2020-12.

    References must stay within the schema. Raises ``SchemaInvalid``, for example if the schema exceeds 64 KiB, 32
    levels, or a thousand alternatives for a single value. Without limits, validation against a small schema could take
    days.
    """
    if is_deeper(schema, MAX_DEPTH):
        raise SchemaInvalid(f"the schema is nested deeper than {MAX_DEPTH} levels")
    try:
        size = len(orjson.dumps(schema))
    except orjson.JSONEncodeError as problem:
        raise SchemaInvalid(f"the schema can't be stored as JSON: {problem}") from None
    if size > MAX_BYTES:
        raise SchemaInvalid(f"the schema is larger than {MAX_BYTES} bytes")
    try:
        validator = validator_of(schema)
    except jsonschema_rs.ValidationError as problem:
        raise SchemaInvalid(shortened(problem.message), tuple(problem.instance_path)) from None
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        raise SchemaInvalid(shortened(str(problem))) from None
    effort = effort_of(schema)
    if effort.alternatives > MAX_ALTERNATIVES:
        raise SchemaInvalid(f"the schema has more than {MAX_ALTERNATIVES} alternatives for one value")
    return CompiledSchema(schema, validator, effort)
