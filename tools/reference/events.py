"""docs/reference/events: a page for each service, from the models of its events."""

from typing import Any, Final

from libs.contracts.asyncapi import document
from libs.contracts.messages import Command, CommandRejected, Event, public_name
from libs.contracts.registry import published_messages
from libs.contracts.topics import TOPICS, Topic, TopicKind
from libs.contracts.wire_examples import examples_of
from tools.reference.markdown import MARK, json_block, table

_OBJECTS: Final = "objects.md"
_PUBLIC: Final = (TopicKind.EVENTS, TopicKind.DELTAS)
_HOUR_MS: Final = 60 * 60 * 1000


def pages() -> dict[str, str]:
    """A page for each service that publishes events, and one for the objects inside events."""
    owners = dict.fromkeys(topic.owner for topic in TOPICS if topic.kind in _PUBLIC)
    return {f"{owner}.md": page for owner in owners if (page := _service(owner))} | {_OBJECTS: _objects()}


def _service(owner: str) -> str:
    described = document()["components"]
    topics = [topic for topic in TOPICS if topic.owner == owner and topic.kind in _PUBLIC]
    kinds = [
        _kind(name, topic, described)
        for topic in topics
        for name, (model, home) in published_messages().items()
        if home == topic and issubclass(model, Event) and model is not CommandRejected
    ]
    if not kinds:
        return ""
    parts = [f"# Events of the {owner} service", _topics(topics), *kinds, *_rejections(owner)]
    return _page(parts)


def _topics(topics: list[Topic]) -> str:
    rows = []
    for topic in topics:
        hours = topic.retention_ms / _HOUR_MS
        kept = f"{hours / 24:g} days" if hours >= 24 else f"{hours * 60:g} minutes"
        rows.append((f"`{topic.name}`", kept, str(topic.partitions), topic.description))
    return table(("topic", "kept", "partitions", "content"), rows).rstrip()


def _kind(name: str, topic: Topic, described: dict[str, Any]) -> str:
    message = described["messages"][name]
    parts = [f"## {public_name(name)}", f"`{name}` on `{topic.name}`"]
    if message["summary"] != message["title"]:
        parts.append(message["summary"])
    example = json_block(examples_of(name)[0]["payload"]).rstrip()
    return "\n\n".join([*parts, _fields(described["schemas"][message["title"]], _OBJECTS), example])


def _fields(schema: dict[str, Any], page: str = "") -> str:
    rows = [(f"`{field}`", _type(details, page)) for field, details in schema["properties"].items()]
    return table(("field", "type"), rows).rstrip()


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
    parts = ["# Objects inside events"]
    for name in met:
        if "properties" in schemas[name]:
            parts.append(f"## {name}\n\n{_fields(schemas[name])}")
        else:
            parts.append(f"## {name}\n\nOne of {', '.join(f'`{value}`' for value in schemas[name]['enum'])}.")
    return _page(parts)


def _page(parts: list[str]) -> str:
    return f"{MARK}\n" + "\n\n".join(parts) + "\n"


def _names_in(schema: Any) -> list[str]:
    if isinstance(schema, dict):
        own = [schema["$ref"].rsplit("/", 1)[1]] if "$ref" in schema else []
        return own + [name for value in schema.values() for name in _names_in(value)]
    if isinstance(schema, list):
        return [name for item in schema for name in _names_in(item)]
    return []


def _type(schema: dict[str, Any], page: str) -> str:
    """The type in words; names of objects link to their description on ``page``."""
    if "$ref" in schema:
        name = str(schema["$ref"]).rsplit("/", 1)[1]
        return f"[{name}]({page}#{name.lower()})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(_type(option, page) for option in schema[choice])
    if schema.get("type") == "array":
        return f"array of {_type(schema['items'], page)}"
    return str(schema.get("type", "anything"))


def _rejections(owner: str) -> list[str]:
    types = [
        f"* `{model.rejected_type()}`"
        for model, topic in published_messages().values()
        if issubclass(model, Command) and topic.owner == owner
    ]
    return ["## Rejected commands", "\n".join(types)] if types else []
