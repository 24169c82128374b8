"""The AsyncAPI 3.0 document of the bus, generated from the declared topics and messages."""

import inspect
from collections.abc import Iterable
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from libs.contracts.identifiers import CORRELATION_ID_PATTERN
from libs.contracts.messages import Command, Message
from libs.contracts.registry import published_messages
from libs.contracts.topics import MAX_MESSAGE_BYTES, TOPICS, Topic, TopicKind, topic_of
from libs.contracts.wire_examples import examples_of

_DOCUMENT_VERSION: Final = "1.0.0"
_DESCRIPTION: Final = """\
Commands ask a service to do something. Each command ends with exactly one terminal event, whose `ce_causationid` is
the command's `ce_id`. Events report what happened. They're public API: any consumer can read them in its own group.
The key of every record is the correlation ID.

Events are delivered at least once: deduplicate them by `ce_id`. `ce_sequence` numbers the events of each
subject and source. If such events have the same correlation ID, they arrive in the order of their numbers. Ignore
unknown event types and fields. A breaking change gets a new type (`.v2`). `ce_dataref` and `ce_datahash` replace a
payload that is too large for Kafka.
"""


_CORRELATION_ID: Final = {
    "type": "string",
    "pattern": CORRELATION_ID_PATTERN,
    "description": "A label shared by all messages that result from one request.",
}
_TEXT: Final = {"type": "string"}
_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "ce_specversion": {"const": "1.0", "description": "The CloudEvents version."},
    "ce_id": {**_TEXT, "description": "The message's ID. A redelivered message keeps its ID."},
    "ce_type": {**_TEXT, "description": "The type of the message, including the type's version."},
    "ce_source": {**_TEXT, "description": "The publishing service."},
    "ce_subject": {**_TEXT, "description": "The ID of the entity that the message is about."},
    "ce_time": {
        **_TEXT,
        "format": "date-time",
        "description": "When the message was created, in UTC with six fractional digits.",
    },
    "ce_correlationid": {"$ref": "#/components/schemas/CorrelationId"},
    "ce_companyid": {**_TEXT, "description": "The ID of the company that the message belongs to."},
    "ce_ownerid": {
        **_TEXT,
        "description": "The ID of the user who can see the event. Holders of `company:read` can see it, too. If the"
        " header is missing, the whole company can see the event. If it's empty, only holders of `company:read` can.",
    },
    "ce_causationid": {**_TEXT, "description": "The ID of the command or event that caused the message."},
    "ce_sequence": {
        **_TEXT,
        "pattern": "^[0-9]+$",
        "description": "The event's sequence number per subject and source, starting at 1. Commands have 0. Deltas have"
        " the preceding event's number.",
    },
    "ce_dataref": {
        **_TEXT,
        "description": "The payload's path in the service's internal API, if the payload is too large for Kafka.",
    },
    "ce_datahash": {**_TEXT, "description": "The SHA-256 of the payload at `ce_dataref`, in hexadecimal."},
    "traceparent": {**_TEXT, "description": "The W3C trace context."},
    "content-type": {"const": "application/json"},
}
_COMMAND_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "ce_expiresat": {
        **_TEXT,
        "format": "date-time",
        "description": "The time after which the command is rejected.",
    },
    "ce_identity": {**_TEXT, "description": "The caller's identity, signed by the gateway."},
    "ce_signature": {**_TEXT, "description": "A signature over the identity, the other attributes and the payload."},
}
_REQUIRED: Final = (
    "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "ce_correlationid",
    "ce_companyid", "content-type",
)  # fmt: skip


def document() -> dict[str, Any]:
    """Returns the document."""
    messages = published_messages()
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Agent Execution Service",
            "version": _DOCUMENT_VERSION,
            "description": _DESCRIPTION,
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic, messages) for topic in TOPICS},
        "operations": _operations(messages),
        "components": {
            "messages": {name: _message(name, model) for name, (model, _) in messages.items()},
            "schemas": {**_header_schemas(), **_payload_schemas()},
        },
    }


def _channel(topic: Topic, messages: dict[str, tuple[type[Message], Topic]]) -> dict[str, Any]:
    return {
        "address": topic.name,
        "title": topic.name,
        "description": f"{topic.description} Keyed by the correlation ID. Service: {topic.owner}.",
        "messages": {
            name: {"$ref": f"#/components/messages/{name}"} for name, (_, home) in messages.items() if home == topic
        },
        "bindings": {
            "kafka": {
                "topic": topic.name,
                "partitions": topic.partitions,
                "topicConfiguration": {
                    "cleanup.policy": ["delete"],
                    "retention.ms": topic.retention_ms,
                    "max.message.bytes": MAX_MESSAGE_BYTES,
                },
                "bindingVersion": "0.5.0",
            }
        },
    }


def _operations(messages: dict[str, tuple[type[Message], Topic]]) -> dict[str, Any]:
    operations: dict[str, Any] = {}
    for topic in TOPICS:
        names = [name for name, (_, home) in messages.items() if home == topic]
        for sender in topic.senders:
            operations[f"{sender}-sends-{topic.name}"] = _operation("send", sender, topic, names)
        for consumer in dict.fromkeys((*topic.consumers, *topic.tailed_by)):
            operations[f"{consumer}-receives-{topic.name}"] = _operation("receive", consumer, topic, names)
    for name, (model, topic) in messages.items():
        if issubclass(model, Command):
            operations[f"{topic.owner}-carries-out-{model.__name__}"] = {
                **_operation("receive", topic.owner, topic, [name]),
                "summary": summary_of(model),
                "reply": _reply(model, topic_of(topic.owner, TopicKind.EVENTS)),
            }
    return operations


def _operation(action: str, service: str, topic: Topic, names: list[str]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{topic.name}"},
        "title": f"{service} {action}s {topic.name}",
        "tags": [{"name": service}],
        "messages": [{"$ref": f"#/channels/{topic.name}/messages/{name}"} for name in names],
    }


def _reply(command: type[Command], topic: Topic) -> dict[str, Any]:
    return {
        "channel": {"$ref": f"#/channels/{topic.name}"},
        "messages": [{"$ref": f"#/channels/{topic.name}/messages/{name}"} for name in sorted(command.outcome_types())],
    }


def _message(name: str, model: type[Message]) -> dict[str, Any]:
    is_command = issubclass(model, Command)
    return {
        "name": name,
        "title": model.__name__,
        "summary": summary_of(model),
        "contentType": "application/json",
        "tags": [{"name": "command" if is_command else "event"}],
        "correlationId": {
            "description": "The correlation ID, which is also the record's key.",
            "location": "$message.header#/ce_correlationid",
        },
        "headers": _headers_of(name, is_command=is_command),
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
        "bindings": {"kafka": {"key": _CORRELATION_ID, "bindingVersion": "0.5.0"}},
        "examples": [
            {"name": name, "headers": example["headers"], "payload": example["payload"]}
            for example in examples_of(name)
        ],
    }


def _header_schemas() -> dict[str, Any]:
    """Returns the component schemas that the result of ``_headers_of`` refers to."""
    event = {"type": "object", "required": list(_REQUIRED), "properties": _ATTRIBUTES}
    command = {
        "type": "object",
        "required": [*_REQUIRED, "ce_identity"],
        "properties": {**_ATTRIBUTES, **_COMMAND_ATTRIBUTES},
    }
    return {"CorrelationId": _CORRELATION_ID, "EventHeaders": event, "CommandHeaders": command}


def _headers_of(message_type: str, *, is_command: bool) -> dict[str, Any]:
    """Returns the JSON Schema of the headers of a message type."""
    base = "CommandHeaders" if is_command else "EventHeaders"
    return {
        "type": "object",
        "allOf": [
            {"$ref": f"#/components/schemas/{base}"},
            {"type": "object", "properties": {"ce_type": {"const": message_type}}},
        ],
    }


def summary_of(model: type[BaseModel]) -> str:
    """Returns a model's docstring as one line, or its name if it has none."""
    own = vars(model).get("__doc__")
    return " ".join(inspect.cleandoc(own).split()).replace("``", "`") if own else model.__name__


def schemas_of(models: Iterable[type[BaseModel]]) -> dict[str, Any]:
    """Returns the schemas of the models and their nested models, by name."""
    _, schema = models_json_schema(
        [(model, "validation") for model in models], ref_template="#/components/schemas/{model}"
    )
    definitions: dict[str, Any] = schema["$defs"]
    return {name: _with_plain_discriminators(definition) for name, definition in definitions.items()}


def _payload_schemas() -> dict[str, Any]:
    return schemas_of({model: None for model, _ in published_messages().values()})


def _with_plain_discriminators(schema: Any) -> Any:
    """Replaces OpenAPI's discriminator objects with the name of the property, as AsyncAPI requires."""
    if isinstance(schema, list):
        return [_with_plain_discriminators(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: value["propertyName"]
        if name == "discriminator" and "propertyName" in value
        else _with_plain_discriminators(value)
        for name, value in schema.items()
    }
