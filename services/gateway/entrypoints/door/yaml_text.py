"""Parses YAML into the same values as JSON. Supports YAML 1.2's core schema, without tags, anchors or aliases."""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from libs.contracts.errors import InvalidRequest
from services.gateway.entrypoints.door.json_text import (
    MAX_DEPTH,
    check_values,
    out_of_range,
    parse_integer,
    parse_number,
)

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_WORDS: Final[dict[str, Any]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def parse_yaml(text: str) -> Any:
    """Raises ``InvalidRequest`` for invalid or unsupported YAML, and ``ValidationFailed`` like ``parse_json``."""
    try:
        value = _document(yaml.parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as problem:
        mark = problem.problem_mark
        position = f" at line {mark.line + 1} column {mark.column + 1}" if mark else ""
        raise InvalidRequest(f"Invalid YAML body: {problem.problem}{position}.") from None
    except (yaml.YAMLError, UnicodeError, RecursionError):
        raise InvalidRequest("Invalid YAML body.") from None
    check_values(value)
    return value


def _document(events: Iterator[yaml.Event]) -> Any:
    value: Any = None
    documents = 0
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            documents += 1
            if documents > 1:
                raise InvalidRequest("The body contains several YAML documents. Send a single one.")
        elif isinstance(event, yaml.NodeEvent):
            value = _node(event, events, 0)
    return value


def _node(event: yaml.Event, events: Iterator[yaml.Event], depth: int) -> Any:
    if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise _refused(event, "anchors and aliases aren't allowed")
    if getattr(event, "tag", None) is not None:
        raise _refused(event, "tags aren't allowed")
    if depth > MAX_DEPTH:
        raise _refused(event, f"it's nested deeper than {MAX_DEPTH} levels")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    if isinstance(event, yaml.SequenceStartEvent):
        return _sequence(events, depth)
    return _mapping(events, depth)


def _sequence(events: Iterator[yaml.Event], depth: int) -> list[Any]:
    items = []
    for event in events:
        if isinstance(event, yaml.SequenceEndEvent):
            break
        items.append(_node(event, events, depth + 1))
    return items


def _mapping(events: Iterator[yaml.Event], depth: int) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for event in events:
        if isinstance(event, yaml.MappingEndEvent):
            break
        key = _key(event)
        if key in fields:
            raise _refused(event, "a key occurs twice in one mapping")
        fields[key] = _node(next(events), events, depth + 1)
    return fields


def _key(event: yaml.Event) -> str:
    if not isinstance(event, yaml.ScalarEvent):
        raise _refused(event, "keys must be plain text")
    _node(event, iter(()), 0)
    return str(event.value)


def _scalar(event: yaml.ScalarEvent) -> Any:
    text = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return parse_integer(text)
    if _BASED.fullmatch(text):
        return parse_integer(str(int(text, 0))) if len(text) < 30 else _too_large()
    if _NUMBER.fullmatch(text):
        return parse_number(text)
    if _NOT_FINITE.fullmatch(text):
        return _too_large()
    return text


def _too_large() -> Any:
    raise out_of_range()


def _refused(event: yaml.Event, reason: str) -> InvalidRequest:
    position = f" (line {event.start_mark.line + 1})" if event.start_mark else ""
    return InvalidRequest(f"Unsupported YAML in the body: {reason}{position}.")
