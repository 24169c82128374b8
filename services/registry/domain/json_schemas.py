"""Checks the JSON Schemas in requests."""

from collections.abc import Iterator
from typing import Any, Final

from libs.contracts.errors import ErrorDetail
from libs.json_schema import SchemaInvalid, compile_schema
from services.registry.domain.findings import found
from services.registry.domain.hints import Loc

# The limit of RFC 8785, which configurations are hashed with.
_LARGEST_INTEGER: Final = 2**53 - 1
_EXAMPLE: Final = 'for example {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}'


def schema_errors(schema: dict[str, Any], loc: Loc) -> list[ErrorDetail]:
    """Returns the errors in a JSON Schema, which must be self-contained."""
    for location in _large_integers(schema, loc):
        message = f"Integers can't exceed {_LARGEST_INTEGER}"
        return [found(location, "number_out_of_range", message, "use a smaller number")]
    try:
        compile_schema(schema)
    except SchemaInvalid as problem:
        message = f"Invalid JSON Schema: {problem}"
        return [found((*loc, *problem.path), "schema_invalid", message)]
    return []


def object_schema_errors(schema: dict[str, Any], loc: Loc) -> list[ErrorDetail]:
    """Returns the errors in the JSON Schema of a tool's parameters.

    The schema must describe an object, or be empty if the tool has no parameters.
    """
    if schema and schema.get("type") != "object":
        message = "A tool's parameters must be a JSON Schema for an object"
        return [found((*loc, "type"), "schema_not_of_object", message, _EXAMPLE)]
    return schema_errors(schema, loc)


def _large_integers(value: object, loc: Loc) -> Iterator[Loc]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _large_integers(item, (*loc, str(name)))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _large_integers(item, (*loc, index))
    elif isinstance(value, int) and abs(value) > _LARGEST_INTEGER:
        yield loc
