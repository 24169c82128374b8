"""Converts OpenAPI schemas to self-contained JSON Schemas."""

import re
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

from libs.confined import JobRefused
from services.runtime.adapters.tools.toolsets.openapi.document import Document
from services.runtime.domain.conversation import JsonObject

_ONE: Final = frozenset({
    "additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedItems",
    "unevaluatedProperties",
})  # fmt: skip
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_MAPS: Final = frozenset({"dependentSchemas", "patternProperties", "properties"})
_PLAIN: Final = frozenset({
    "const", "default", "dependentRequired", "description", "enum", "exclusiveMaximum", "exclusiveMinimum", "format",
    "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains", "minItems", "minLength",
    "minProperties", "minimum", "multipleOf", "pattern", "required", "title", "type", "uniqueItems",
})  # fmt: skip
_DEEPEST: Final = 60
_MOST_NODES: Final = 5_000
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def distinct(name: str, taken: set[str]) -> str:
    """Returns and reserves the name. If it's taken, a number is appended."""
    made, number = name, 1
    while made in taken:
        number += 1
        made = f"{name}_{number}"
    taken.add(made)
    return made


def is_read_only(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("readOnly") is True


@dataclass(slots=True)
class _Definition:
    schema: Any
    references: set[str]
    nodes: int


@dataclass(slots=True)
class Schemas:
    """Converts a document's schemas to JSON Schema. Each referenced schema is converted only once.

    OpenAPI-specific keywords and read-only properties are dropped, and the syntax of version 3.0 is translated.
    """

    document: Document
    _definitions: dict[str, _Definition] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _taken: set[str] = field(default_factory=set)

    def convert(self, schema: Any, location: str) -> tuple[Any, set[str], int]:
        """Returns the converted schema, its references, and its size in nodes. Raises JobRefused."""
        conversion = _Conversion(self, location)
        return conversion.schema(schema, 0), conversion.references, conversion.nodes

    def definitions(self, references: set[str], location: str) -> JsonObject:
        """Returns `$defs` with the referenced schemas and everything they refer to.

        Raises JobRefused if they're too large.
        """
        waiting, found = list(references), dict[str, _Definition]()
        nodes = 0
        while waiting:
            reference = waiting.pop()
            if reference in found:
                continue
            found[reference] = self._definition(reference, location)
            nodes += found[reference].nodes
            if nodes > _MOST_NODES:
                raise JobRefused(f"{location}: the arguments' schemas are too large for a model")
            waiting.extend(found[reference].references)
        return {self.name(reference): found[reference].schema for reference in sorted(found)}

    def name(self, reference: str) -> str:
        """Returns a unique name for the referenced schema, based on the last segment of the reference."""
        if reference not in self._names:
            base = _NOT_IN_NAMES.sub("_", reference.rpartition("/")[2])[:60] or "schema"
            self._names[reference] = distinct(base, self._taken)
        return self._names[reference]

    def _definition(self, reference: str, location: str) -> _Definition:
        if reference not in self._definitions:
            target = self.document.lookup(reference, location)
            self._definitions[reference] = _Definition(*self.convert(target, location))
        return self._definitions[reference]


@dataclass(slots=True)
class _Conversion:
    schemas: Schemas
    location: str
    references: set[str] = field(default_factory=set)
    nodes: int = 0

    def schema(self, schema: Any, depth: int) -> Any:
        self._count(depth)
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise JobRefused(f"{self.location}: a schema must be an object, not {type(schema).__name__}")
        old = self.schemas.document.version == "3.0"
        made = {} if old and "$ref" in schema else self._keywords(schema, depth)
        if "$ref" in schema:
            made["$ref"] = self._reference(schema["$ref"])
        return _translated(made, schema) if old else made

    def _keywords(self, schema: JsonObject, depth: int) -> JsonObject:
        made: JsonObject = {}
        properties = schema.get("properties")
        listed = properties.items() if isinstance(properties, dict) else ()
        hidden = {str(name) for name, each in listed if is_read_only(each)}
        for keyword, value in schema.items():
            if keyword in _ONE:
                made[keyword] = self.schema(value, depth + 1)
            elif keyword in _LISTS:
                made[keyword] = [self.schema(each, depth + 1) for each in self._kind(value, list, keyword)]
            elif keyword in _MAPS:
                made[keyword] = {
                    str(name): self.schema(each, depth + 1)
                    for name, each in self._kind(value, dict, keyword).items()
                    if keyword != "properties" or str(name) not in hidden
                }
            elif keyword == "required":
                made[keyword] = [str(name) for name in self._kind(value, list, keyword) if str(name) not in hidden]
            elif keyword in _PLAIN:
                made[keyword] = self._value(value, depth + 1)
        return made

    def _reference(self, reference: Any) -> str:
        # Checked here, so that the message includes the location.
        self.schemas.document.lookup(reference, self.location)
        self.references.add(reference)
        return f"#/$defs/{self.schemas.name(reference)}"

    def _value(self, value: Any, depth: int) -> Any:
        """Copies and checks a plain value. Values from YAML may be huge because of aliases, or invalid in JSON."""
        self._count(depth)
        if isinstance(value, dict):
            return {str(name): self._value(each, depth + 1) for name, each in value.items()}
        if isinstance(value, list):
            return [self._value(each, depth + 1) for each in value]
        if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and isfinite(value)):
            return value
        raise JobRefused(
            f"{self.location}: a schema contains a value that JSON doesn't support ({type(value).__name__})"
        )

    def _kind(self, value: Any, kind: type, keyword: str) -> Any:
        if not isinstance(value, kind):
            raise JobRefused(f"{self.location}: `{keyword}` in a schema can't be of type {type(value).__name__}")
        return value

    def _count(self, depth: int) -> None:
        self.nodes += 1
        if depth > _DEEPEST or self.nodes > _MOST_NODES:
            raise JobRefused(f"{self.location}: a schema is too large or nested too deeply")


def _translated(made: JsonObject, schema: JsonObject) -> JsonObject:
    """Translates `nullable` and boolean exclusive bounds from OpenAPI 3.0 to JSON Schema."""
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(flag := made.get(exclusive), bool):
            del made[exclusive]
            if flag and bound in made:
                made[exclusive] = made.pop(bound)
    if schema.get("nullable") is not True:
        return made
    if isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
    if isinstance(made.get("enum"), list) and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    # Without a type, `nullable` only has an effect on composed schemas.
    if "type" not in made and any(keyword in made for keyword in ("allOf", "anyOf", "oneOf")):
        described = {"description": made.pop("description")} if "description" in made else {}
        return {"anyOf": [made, {"type": "null"}], **described}
    return made
