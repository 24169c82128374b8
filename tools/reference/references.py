"""Resolves references within an OpenAPI or AsyncAPI document."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]


def name_of(part: Schema) -> str:
    """Returns the name of the referenced component, or an empty string if the part isn't a reference."""
    return str(part.get("$ref", "")).rpartition("/")[2]


def resolved(part: Schema, document: Schema) -> Schema:
    """Returns the referenced component, or the part itself if it isn't a reference."""
    while "$ref" in part:
        found: Any = document
        for name in part["$ref"].removeprefix("#/").split("/"):
            found = found[name]
        part = found
    return part


def reachable(parts: Iterable[Any], schemas: Mapping[str, Schema]) -> list[str]:
    """Returns the names of the schemas that the parts use, directly or indirectly, in order of first use."""
    found: dict[str, None] = {}
    waiting = [*parts]
    while waiting:
        for name in _schemas_in(waiting.pop(0)):
            if name not in found:
                found[name] = None
                waiting.append(schemas[name])
    return [*found]


def _schemas_in(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if "/schemas/" in str(part.get("$ref")):
            yield name_of(part)
        part = [*part.values()]
    if isinstance(part, list):
        for each in part:
            yield from _schemas_in(each)
