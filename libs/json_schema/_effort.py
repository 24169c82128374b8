"""Computes an upper bound for the work of validating a value against a schema."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Any, Final
from urllib.parse import unquote

_LISTS: Final = ("allOf", "anyOf", "oneOf")
_SINGLE: Final = ("not", "if", "then", "else")
_BY_PROPERTY: Final = ("dependentSchemas", "dependencies")
_OF_MEMBERS: Final = ("properties", "additionalProperties")
_OF_ITEMS: Final = ("items", "prefixItems", "additionalItems")
_EVALUATED_AGAIN: Final = ("unevaluatedProperties", "unevaluatedItems")
# References of these kinds aren't resolved.
_ELSEWHERE: Final = ("$dynamicRef", "$recursiveRef")
# Python's stack is limited, so the cost of longer chains of references isn't computed.
_LONGEST_CHAIN: Final = 100


@dataclass(frozen=True, slots=True)
class Effort:
    """The cost of a schema. ``alternatives`` is the maximum number of schemas that apply to a single value.

    Each of these schemas applies up to ``branching`` schemas to a member of the value. ``branching`` is 1 if
    there are no alternatives, and infinite if the cost can't be computed.
    """

    alternatives: int
    branching: float

    def of(self, value: Any) -> float:
        """Returns an upper bound for the number of schemas that are applied to the value and everything in it."""
        if self.branching == inf:
            # Even for a value without members, since ``alternatives`` is too low.
            return inf
        values, depth = _size(value)
        return values * self.alternatives * self.branching**depth


def effort_of(schema: Any) -> Effort:
    """Computes the cost. A schema that applies itself to the same value counts once."""
    counts: dict[int, tuple[int, float]] = {}
    alternatives, branching, waiting = 1, 1.0, [schema]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            count, members = _count(item, schema, counts, _LONGEST_CHAIN)
            alternatives, branching = max(alternatives, count), max(branching, members)
            if item is not schema and ("$id" in item or "id" in item):
                # References inside are resolved against the ID. A property named `id` is mistaken for an ID.
                branching = inf
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return Effort(alternatives, branching)


def _count(schema: Any, root: Any, counts: dict[int, tuple[int, float]], chain: int) -> tuple[int, float]:
    if not isinstance(schema, dict) or chain == 0:
        return 1, 0.0 if chain else inf
    if id(schema) not in counts:
        counts[id(schema)] = 1, 0.0
        below = [_count(each, root, counts, chain - 1) for each in _in_place(schema, root)]
        members = _applied_to_a_member(schema) + sum(each[1] for each in below)
        if any(name in schema for name in _EVALUATED_AGAIN):
            members *= 2
        if not _is_understood(schema, root):
            members = inf
        counts[id(schema)] = 1 + sum(each[0] for each in below), members
    return counts[id(schema)]


def _applied_to_a_member(schema: dict[str, Any]) -> int:
    """Counts the subschemas that can apply to the same property or item."""
    patterns = schema.get("patternProperties")
    return (
        any(isinstance(schema.get(name), dict) for name in _OF_MEMBERS)
        + (len(patterns) if isinstance(patterns, dict) else 0)
        + any(isinstance(schema.get(name), dict | list) for name in _OF_ITEMS)
        + ("contains" in schema)
        + sum(isinstance(schema.get(name), dict) for name in _EVALUATED_AGAIN)
    )


def _in_place(schema: dict[str, Any], root: Any) -> Iterator[Any]:
    """Yields the subschemas that apply to the same value as the schema itself."""
    for name in _LISTS:
        if isinstance(found := schema.get(name), list):
            yield from found
    yield from (schema[name] for name in _SINGLE if name in schema)
    for name in _BY_PROPERTY:
        if isinstance(found := schema.get(name), dict):
            yield from found.values()
    if isinstance(reference := schema.get("$ref"), str) and reference.startswith("#"):
        yield _target(root, reference)


def _is_understood(schema: dict[str, Any], root: Any) -> bool:
    if any(name in schema for name in _ELSEWHERE):
        return False
    reference = schema.get("$ref")
    return not isinstance(reference, str) or (reference.startswith("#") and _target(root, reference) is not None)


def _target(root: Any, reference: str) -> Any:
    """Returns the referenced schema, or None if it doesn't exist or the reference isn't a JSON pointer."""
    pointer = unquote(reference.removeprefix("#"))
    if pointer and not pointer.startswith("/"):
        return None
    found = root
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list):
            found = found[int(name)] if name.isdecimal() and int(name) < len(found) else None
        else:
            found = found.get(name) if isinstance(found, dict) else None
    return found


def _size(value: Any) -> tuple[int, int]:
    """Returns the number of nested values, including the value itself, and the depth of the nesting."""
    count, depth, level = 0, 0, [value]
    while level:
        count += len(level)
        members = [item for item in level if isinstance(item, dict | list) and item]
        level = [each for item in members for each in (item.values() if isinstance(item, dict) else item)]
        depth += bool(level)
    return count, depth
