"""Generates a part of ``docs/events.md``: ``python -m libs.contracts.event_reference docs/events.md``."""

import sys
from pathlib import Path
from typing import Any, Final

from libs.contracts.asyncapi import document, published_messages
from libs.contracts.messages import Command, CommandRejected, Event, public_name
from libs.contracts.topics import TOPICS, TopicKind

BEGIN: Final = "<!-- generated from libs/contracts by libs/contracts/event_reference.py; edits are lost -->"
END: Final = "<!-- end of the generated part -->"
_PUBLIC: Final = (TopicKind.EVENTS, TopicKind.DELTAS)
_HOUR_MS: Final = 60 * 60 * 1000


def render(page: str) -> str:
    """Replaces the generated part of the page. Raises ``ValueError`` when there is none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError("the page has no generated part")
    return f"{before}{BEGIN}\n\n{_topics()}\n\n{_events()}\n\n{_objects()}\n\n{_rejections()}\n\n{END}{after}"


def _topics() -> str:
    rows = ["## Topics", "", "| topic | kept | partitions | what |", "| --- | --- | --- | --- |"]
    for topic in TOPICS:
        if topic.kind in _PUBLIC:
            hours = topic.retention_ms / _HOUR_MS
            kept = f"{hours / 24:g} days" if hours >= 24 else f"{hours * 60:g} minutes"
            rows.append(f"| `{topic.name}` | {kept} | {topic.partitions} | {topic.description} |")
    return "\n".join(rows)


def _events() -> str:
    described = document()["components"]
    parts = ["## Event kinds"]
    for topic in TOPICS:
        kinds = [
            name
            for name, (model, home) in published_messages().items()
            if home == topic and issubclass(model, Event) and model is not CommandRejected
        ]
        if kinds:
            parts.append(f"### On `{topic.name}`")
            parts += [_kind(name, described) for name in kinds]
    return "\n\n".join(parts)


def _kind(name: str, described: dict[str, Any]) -> str:
    message = described["messages"][name]
    schema = described["schemas"][message["title"]]
    rows = [f"#### {public_name(name)}", "", f"`{name}`"]
    if message["summary"] != message["title"]:
        rows += ["", message["summary"]]
    return "\n".join([*rows, "", *_fields(schema)])


def _fields(schema: dict[str, Any]) -> list[str]:
    rows = [f"| `{field}` | {_type(details)} |" for field, details in schema["properties"].items()]
    return ["| field | type |", "| --- | --- |", *rows]


def _objects() -> str:
    """Describes the objects inside events, each once, in the order of their first use."""
    schemas = document()["components"]["schemas"]
    waiting = [schemas[model.__name__] for model, _ in published_messages().values() if not issubclass(model, Command)]
    met: dict[str, None] = {}
    while waiting:
        for name in _names_in(waiting.pop(0)):
            if name not in met:
                met[name] = None
                waiting.append(schemas[name])
    parts = ["## Objects inside events"]
    for name in met:
        if "properties" in schemas[name]:
            parts.append("\n".join([f"### {name}", "", *_fields(schemas[name])]))
        else:
            parts.append(f"### {name}\n\nOne of {', '.join(f'`{value}`' for value in schemas[name]['enum'])}.")
    return "\n\n".join(parts)


def _names_in(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else []
        return own + [name for value in schema.values() for name in _names_in(value)]
    if isinstance(schema, list):
        return [name for item in schema for name in _names_in(item)]
    return []


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[1]
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(_type(option) for option in schema[choice])
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'])}"
    return str(schema.get("type", "anything"))


def _rejections() -> str:
    rows = [
        "## Refused commands",
        "",
        "A command that its owner refuses ends in one of these, on the owner's events topic. The payload is",
        "`error`, an object with `type`, `message` and, where they help, `details`, as in the errors of the REST API.",
        "",
    ]
    rows += [f"* `{model.rejected_type()}`" for model, _ in published_messages().values() if issubclass(model, Command)]
    return "\n".join(rows)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(render(path.read_text()))
