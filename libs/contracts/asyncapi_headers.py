"""The JSON Schema of the envelope: CloudEvents attributes in Kafka headers."""

from typing import Any, Final

from libs.contracts.identifiers import CORRELATION_ID_PATTERN

CORRELATION_ID_SCHEMA: Final = {
    "type": "string",
    "pattern": CORRELATION_ID_PATTERN,
    "description": "The label shared by all messages of a request.",
}
_TEXT: Final = {"type": "string"}
_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "ce_specversion": {"const": "1.0", "description": "The version of CloudEvents."},
    "ce_id": {**_TEXT, "description": "Unique per message, and the same on redelivery."},
    "ce_type": {**_TEXT, "description": "The message's type, with its version."},
    "ce_source": {**_TEXT, "description": "The publishing service."},
    "ce_subject": {**_TEXT, "description": "The ID of the entity that the message is about."},
    "ce_time": {
        **_TEXT,
        "format": "date-time",
        "description": "When the message was created: UTC, six fractional digits.",
    },
    "ce_correlationid": {"$ref": "#/components/schemas/CorrelationId"},
    "ce_companyid": {**_TEXT, "description": "The company that the message belongs to."},
    "ce_ownerid": {
        **_TEXT,
        "description": "The user who may see the event, as may holders of `company:read`. If missing, the whole company"
        " may see the event. If empty, the owner is unknown.",
    },
    "ce_causationid": {**_TEXT, "description": "The ID of the command or event that caused the message."},
    "ce_sequence": {
        **_TEXT,
        "pattern": "^[0-9]+$",
        "description": "The event's number for its subject, from 1. Commands have 0, deltas the preceding number.",
    },
    "ce_dataref": {
        **_TEXT,
        "description": "The path of a payload that is too large for Kafka, in the service's internal API.",
    },
    "ce_datahash": {**_TEXT, "description": "The SHA-256 of the payload at `ce_dataref`, in hex."},
    "traceparent": {**_TEXT, "description": "W3C trace context."},
    "content-type": {"const": "application/json"},
}
_COMMAND_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "ce_expiresat": {
        **_TEXT,
        "format": "date-time",
        "description": "When the command expires. It isn't accepted after this time.",
    },
    "ce_identity": {**_TEXT, "description": "The caller, signed by the gateway."},
    "ce_signature": {**_TEXT, "description": "The signature over the caller, the other attributes and the payload."},
}
_REQUIRED: Final = (
    "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "ce_correlationid",
    "ce_companyid", "content-type",
)  # fmt: skip


def header_schemas() -> dict[str, Any]:
    """Returns the component schemas that ``headers_of`` references."""
    event = {"type": "object", "required": list(_REQUIRED), "properties": _ATTRIBUTES}
    command = {
        "type": "object",
        "required": [*_REQUIRED, "ce_identity"],
        "properties": {**_ATTRIBUTES, **_COMMAND_ATTRIBUTES},
    }
    return {"CorrelationId": CORRELATION_ID_SCHEMA, "EventHeaders": event, "CommandHeaders": command}


def headers_of(message_type: str, *, is_command: bool) -> dict[str, Any]:
    """Returns the schema of a message's headers."""
    base = "CommandHeaders" if is_command else "EventHeaders"
    return {
        "type": "object",
        "allOf": [
            {"$ref": f"#/components/schemas/{base}"},
            {"type": "object", "properties": {"ce_type": {"const": message_type}}},
        ],
    }
