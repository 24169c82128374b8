"""Examples of messages on the bus, derived from the ``EXAMPLES`` of messages and of the models they contain.

An example contains only values that can't be derived. IDs come from the entities' examples, and fields with a default
can be omitted. A resource's module can set two attributes of its events in ``EXAMPLE_ENVELOPE``. ``subject`` is an ID,
or the name of a field with an ID. ``owner_id`` is set if it isn't the caller's ID.

``python -m libs.contracts.wire_examples 1.0`` writes the payloads of release 1.0 to ``examples/1.0.json``. All later
versions must be able to read these payloads.
"""

import json
import re
import sys
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from libs.contracts import citations, replies
from libs.contracts.messages import Command, CommandRejected, Envelope, Message, public_name
from libs.contracts.registry import RESOURCES, published_messages
from libs.contracts.resources.files import CopyArtifact

RELEASES: Final = Path(__file__).parent / "examples"
_LABEL: Final = "ferry-desk-2026-05-04"
_COMPANY: Final = "01980f4e-2b6a-7c11-9a53-6f0f1d8e4b01"
_CALLER: Final = "01980f4e-2c05-7d42-8e1b-0b9a7c3d5e02"
_KEY: Final = "01980f4e-2d11-7e02-9c4d-2a1b0c9d8e03"
_COMMAND: Final = "01980f5f-0154-7e47-9f50-4d5e6f7a8b15"
_TRACE: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
_ASKED: Final = "2026-05-04T08:16:09.191726Z"
_EXPIRES: Final = "2026-05-04T08:18:09.191726Z"
_HAPPENED: Final = "2026-05-04T08:16:15.239240Z"
_FIRST: Final = frozenset({"created", "indexing", "queued", "stored", "uploaded"})
# Entities that a command creates have the command's ID, as do turns.
_MADE: Final = frozenset({"completed", "created", "stored"})


@cache
def examples_of(message_type: str) -> list[dict[str, Any]]:
    """Returns examples of a message as JSON-ready data. Raises ``LookupError`` if a required field has no example."""
    model, topic = published_messages()[message_type]
    return [
        {
            "topic": topic.name,
            "key": _LABEL,
            "headers": _envelope(message_type, message, number).attributes(),
            "payload": json.loads(message.encode()),
        }
        for number, message in enumerate(_messages(model))
    ]


def write_release(file: Path) -> None:
    payloads = {name: [each["payload"] for each in examples_of(name)] for name in published_messages()}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(payloads, indent=1, ensure_ascii=False) + "\n")


def _messages(model: type[Message]) -> list[Message]:
    return [model.decode(json.dumps(each).encode()) for each in _completed(model)]


def _completed(model: type[BaseModel]) -> Iterator[dict[str, Any]]:
    given: dict[str, dict[str, Any]] = getattr(model, "EXAMPLES", {"": {}})
    for example in given.values():
        derived = {
            name: _derived(model, name, field)
            for name, field in model.model_fields.items()
            if name not in example and field.is_required()
        }
        yield derived | example


def _derived(model: type[BaseModel], name: str, field: FieldInfo) -> Any:
    for inner in get_args(field.annotation) or (field.annotation,):
        if hasattr(inner, "EXAMPLES"):
            return next(_completed(inner))
    try:
        return ids()[name]
    except KeyError:
        raise LookupError(f"{model.__name__}.{name} needs an example") from None


@cache
def views() -> dict[str, dict[str, Any]]:
    """Returns the first example of each model that isn't a message, by the model's name."""
    modules = (citations, replies, *RESOURCES)
    models = [each for module in modules for each in vars(module).values() if hasattr(each, "EXAMPLES")]
    return {each.__name__: next(iter(each.EXAMPLES.values())) for each in models if not issubclass(each, Message)}


@cache
def ids() -> dict[str, str]:
    """Returns the example ID of each entity, by the name of the field that refers to it."""
    found = {"company_id": _COMPANY, "user_id": _CALLER, "owner_id": _CALLER, "key_id": _KEY}
    for name, example in views().items():
        field = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() + "_id"
        if "id" in example or field in example:
            found[field] = example.get(field) or example["id"]
    return found


def _envelope(message_type: str, message: Message, number: int) -> Envelope:
    topic = published_messages()[message_type][1]
    envelope = Envelope(
        id=f"01980f60-2222-7a2b-8c3d-4e5f{zlib.crc32(f'{message_type} {number}'.encode()):08x}",
        type=message_type,
        source=f"/aes/{topic.owner}",
        subject=_COMMAND,
        time=_HAPPENED,
        correlation_id=_LABEL,
        company_id=_COMPANY,
        sequence=1,
        traceparent=_TRACE,
    )
    if isinstance(message, Command):
        command_id = _command_id(type(message))
        return replace(
            envelope,
            id=command_id,
            source="/aes/artifacts" if isinstance(message, CopyArtifact) else "/aes/gateway",
            subject=message.subject() or command_id,
            time=_ASKED,
            sequence=0,
            expires_at=_EXPIRES,
            identity="<signed by the gateway>",
        )
    if isinstance(message, CommandRejected):
        command_id = _causes()[message_type]
        return replace(envelope, subject=command_id, causation_id=command_id, owner_id=_CALLER)
    noun, *_, verb = public_name(message_type).split(".")
    subject = _subject(message)
    return replace(
        envelope,
        subject=subject,
        causation_id=subject if noun == "turn" else _causes().get(message_type),
        owner_id=_declared(type(message)).get("owner_id", _CALLER),
        sequence=1 if verb in _FIRST or subject == _COMMAND else 2,
    )


def _command_id(command: type[Command]) -> str:
    outcome = command.OUTCOMES[0]
    verb = public_name(outcome.TYPE).rpartition(".")[2]
    return _subject(_messages(outcome)[0]) if verb in _MADE else _COMMAND


@cache
def _causes() -> dict[str, str]:
    """Returns the ID of the command that leads to each terminal event, by the event's type."""
    commands = [model for model, _ in published_messages().values() if issubclass(model, Command)]
    return {outcome: _command_id(command) for command in commands for outcome in command.outcome_types()}


def _subject(event: Message) -> str:
    """Returns the ID of the entity that an event is about, or of the event's command."""
    if declared := _declared(type(event)).get("subject"):
        return ids().get(declared, declared)
    noun, payload = public_name(event.TYPE).split(".")[0], json.loads(event.encode())
    entity = payload.get(noun) or payload
    field = "turn_id" if noun == "cancel_turn" else f"{noun}_id"
    return str(entity.get(field) or entity.get("id") or _COMMAND)


def _declared(model: type[Message]) -> Mapping[str, str | None]:
    declared: Mapping[str, str | None] = getattr(sys.modules[model.__module__], "EXAMPLE_ENVELOPE", {})
    return declared


if __name__ == "__main__":
    write_release(RELEASES / f"{sys.argv[1]}.json")
