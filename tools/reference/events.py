"""Generates docs/reference/events, which has a page for each service, from the models of events."""

from collections.abc import Mapping
from typing import Final

from libs.contracts.asyncapi import document
from libs.contracts.messages import Command, CommandRejected, Event, Message, public_name
from libs.contracts.registry import published_messages
from libs.contracts.topics import TOPICS, Topic, TopicKind
from libs.contracts.wire_examples import examples_of
from tools.reference.markdown import MARK, json_block, table
from tools.reference.objects import Objects
from tools.reference.references import Schema, reachable
from tools.reference.routes import described_api

_PUBLIC: Final = (TopicKind.EVENTS, TopicKind.DELTAS)
_HOUR_MS: Final = 60 * 60 * 1000
_REJECTED: Final = (
    "If the service rejects a command, it publishes one of these events. The event's `error` contains the reason"
    " ([ErrorInfo](../routes.md#errorinfo)):"
)


def pages() -> dict[str, str]:
    events = {name: topic.owner for name, (model, topic) in published_messages().items() if _is_own(model, topic)}
    owners = dict.fromkeys(topic.owner for topic in TOPICS if topic.owner in events.values())
    components = document()["components"]
    objects = _objects(components, {name: _file(owner) for name, owner in events.items()})
    return {_file(owner): _service(owner, components, objects) for owner in owners}


def _is_own(model: type[Message], topic: Topic) -> bool:
    return topic.kind in _PUBLIC and issubclass(model, Event) and model is not CommandRejected


def _file(owner: str) -> str:
    return f"events/{owner}.md"


def _objects(components: Schema, pages_of_events: Mapping[str, str]) -> Objects:
    """Returns the objects in events, each on one page: the API's page if the API has the same object."""
    schemas, api = components["schemas"], described_api()
    homes = {name: page for name, page in api.homes.items() if name in schemas}
    in_events = Objects(schemas, homes)
    for name in [name for name in homes if in_events.description(name) != api.objects.description(name)]:
        del homes[name]
    for event, page in pages_of_events.items():
        for name in reachable([schemas[components["messages"][event]["title"]]], schemas):
            homes.setdefault(name, page)
    return Objects(schemas, homes)


def _service(owner: str, components: Schema, objects: Objects) -> str:
    topics = [topic for topic in TOPICS if topic.owner == owner and topic.kind in _PUBLIC]
    kinds = [
        _kind(name, topic, components, objects)
        for topic in topics
        for name, (model, home) in published_messages().items()
        if home == topic and _is_own(model, home)
    ]
    parts = [f"# Events of the {owner} service", _topics(topics), *kinds, *_rejections(owner)]
    return f"{MARK}\n" + "\n\n".join([*parts, *(each.rstrip() for each in objects.of_page(_file(owner)))]) + "\n"


def _topics(topics: list[Topic]) -> str:
    rows = []
    for topic in topics:
        hours = topic.retention_ms / _HOUR_MS
        kept = f"{hours / 24:g} days" if hours >= 24 else f"{hours * 60:g} minutes"
        rows.append((f"`{topic.name}`", kept, str(topic.partitions), topic.description))
    return table(("topic", "kept", "partitions", "content"), rows).rstrip()


def _kind(name: str, topic: Topic, components: Schema, objects: Objects) -> str:
    message = components["messages"][name]
    parts = [f"## {public_name(name)}", f"`{name}` on `{topic.name}`"]
    if message["summary"] != message["title"]:
        parts.append(message["summary"])
    example = json_block(examples_of(name)[0]["payload"]).rstrip()
    fields = objects.fields(components["schemas"][message["title"]], _file(topic.owner)).rstrip()
    return "\n\n".join([*parts, fields, example])


def _rejections(owner: str) -> list[str]:
    types = [
        f"* `{model.rejected_type()}`"
        for model, topic in published_messages().values()
        if issubclass(model, Command) and topic.owner == owner
    ]
    return ["## Rejected commands", _REJECTED, "\n".join(types)] if types else []
