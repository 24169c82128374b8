"""The number of schemas that a single value is held against, references followed."""

from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
# Further references count as one alternative each: a chain of them is no cost, and Python's stack is bounded.
_LONGEST_CHAIN: Final = 100


def alternatives_of(schema: Any) -> int:
    """The largest number for any place of the schema. A schema that refers to itself in place counts once there."""
    counts: dict[int, int] = {}
    largest, waiting = 1, [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            largest = max(largest, _count(item, schema, counts, _LONGEST_CHAIN))
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return largest


def _count(schema: Any, root: Any, counts: dict[int, int], chain: int) -> int:
    if not isinstance(schema, dict) or chain == 0:
        return 1
    if id(schema) not in counts:
        counts[id(schema)] = 1
        counts[id(schema)] = 1 + sum(_count(each, root, counts, chain - 1) for each in _in_place(schema, root))
    return counts[id(schema)]


def _in_place(schema: dict[str, Any], root: Any) -> Iterator[Any]:
    """The schemas that the same value is held against as well."""
    for name in _LISTS:
        if isinstance(found := schema.get(name), list):
            yield from found
    yield from (schema[name] for name in _SINGLE if name in schema)
    if isinstance(found := schema.get("dependentSchemas"), dict):
        yield from found.values()
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        yield _target(root, reference)


def _target(root: Any, reference: str) -> Any:
    """The schema at a JSON pointer; None for an anchor."""
    found = root
    for part in unquote(reference.removeprefix("#")).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found
