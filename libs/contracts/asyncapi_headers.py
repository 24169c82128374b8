"""The JSON Schema of the envelope: CloudEvents attributes in Kafka headers."""

from typing import Any, Final

from libs.contracts.identifiers import CORRELATION_ID_PATTERN

CORRELATION_ID_SCHEMA: Final = {
    "type": "string",
    "pattern": CORRELATION_ID_PATTERN,
    "description": "The label that ties together everything one request led to.",
}
_TEXT: Final = {"type": "string"}
_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "ce_specversion": {"const": "1.0", "description": "The version of CloudEvents."},
    "ce_id": {**_TEXT, "description": "Unique per message; a redelivery has the same."},
    "ce_type": {**_TEXT, "description": "What kind of message, with its version."},
    "ce_source": {**_TEXT, "description": "The service that sent it."},
    "ce_subject": {**_TEXT, "description": "The id of the entity that the message is about."},
    "ce_time": {
        **_TEXT,
        "format": "date-time",
        "description": "When it was made, UTC, six fractional digits.",
    },
    "ce_correlationid": {"$ref": "#/components/schemas/CorrelationId"},
    "ce_companyid": {**_TEXT, "description": "The company that it belongs to."},
    "ce_ownerid": {
        **_TEXT,
        "description": "The user who may see the event beside those who read the whole company. Without it the whole"
        " company may; empty: whose it is is unknown.",
    },
    "ce_causationid": {**_TEXT, "description": "The id of the command or event that led to it."},
    "ce_sequence": {
        **_TEXT,
        "pattern": "^[0-9]+$",
        "description": "Counts the events of one subject from 1; 0 on commands; on deltas, of the event before.",
    },
    "ce_dataref": {
        **_TEXT,
        "description": "Path of the owner's internal API with the payload, when it is too large.",
    },
    "ce_datahash": {**_TEXT, "description": "SHA-256, in hex, of the payload behind ce_dataref."},
    "traceparent": {**_TEXT, "description": "W3C trace context."},
    "content-type": {"const": "application/json"},
}
_COMMAND_ATTRIBUTES: Final[dict[str, dict[str, Any]]] = {
    "ce_expiresat": {**_TEXT, "format": "date-time", "description": "Not accepted after this time."},
    "ce_identity": {**_TEXT, "description": "The caller, signed by the gateway."},
    "ce_signature": {**_TEXT, "description": "Over the caller, the other attributes and the payload."},
}
_REQUIRED: Final = (
    "ce_specversion", "ce_id", "ce_type", "ce_source", "ce_subject", "ce_time", "ce_correlationid",
    "ce_companyid", "content-type",
)  # fmt: skip


def header_schemas() -> dict[str, Any]:
    """The component schemas that ``headers_of`` refers to."""
    event = {"type": "object", "required": list(_REQUIRED), "properties": _ATTRIBUTES}
    command = {
        "type": "object",
        "required": [*_REQUIRED, "ce_identity"],
        "properties": {**_ATTRIBUTES, **_COMMAND_ATTRIBUTES},
    }
    return {"CorrelationId": CORRELATION_ID_SCHEMA, "EventHeaders": event, "CommandHeaders": command}


def headers_of(message_type: str, *, is_command: bool) -> dict[str, Any]:
    """The schema of one message's headers."""
    base = "CommandHeaders" if is_command else "EventHeaders"
    return {
        "type": "object",
        "allOf": [
            {"$ref": f"#/components/schemas/{base}"},
            {"type": "object", "properties": {"ce_type": {"const": message_type}}},
        ],
    }
