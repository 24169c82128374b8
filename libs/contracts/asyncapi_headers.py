"""The JSON Schema of the envelope, whose CloudEvents attributes are Kafka headers."""

from typing import Any, Final

from libs.contracts.identifiers import CORRELATION_ID_PATTERN

CORRELATION_ID_SCHEMA: Final = {
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


def header_schemas() -> dict[str, Any]:
    """Returns the component schemas that the result of ``headers_of`` refers to."""
    event = {"type": "object", "required": list(_REQUIRED), "properties": _ATTRIBUTES}
    command = {
        "type": "object",
        "required": [*_REQUIRED, "ce_identity"],
        "properties": {**_ATTRIBUTES, **_COMMAND_ATTRIBUTES},
    }
    return {"CorrelationId": CORRELATION_ID_SCHEMA, "EventHeaders": event, "CommandHeaders": command}


def headers_of(message_type: str, *, is_command: bool) -> dict[str, Any]:
    """Returns the JSON Schema of the headers of a message type."""
    base = "CommandHeaders" if is_command else "EventHeaders"
    return {
        "type": "object",
        "allOf": [
            {"$ref": f"#/components/schemas/{base}"},
            {"type": "object", "properties": {"ce_type": {"const": message_type}}},
        ],
    }
