"""Builds the AsyncAPI document, which describes the Kafka topics and the WebSocket of sessions."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from libs.contracts import asyncapi
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import CommandRejected, Message, public_name
from libs.contracts.registry import published_messages
from libs.contracts.resources.artifacts import ArtifactUploaded
from libs.contracts.topics import TopicKind
from libs.contracts.wire_examples import examples_of
from services.gateway.entrypoints.rest.client_messages import MODELS
from services.gateway.entrypoints.rest.session_socket import route

CHANNEL: Final = "session-socket"
_DESCRIPTION: Final = """\
Messages are JSON objects in text frames of at most 512 KiB. The service sends the events of all turns of the session,
including other callers' turns. To connect, send an API key in `x-api-key`, a bearer token in `Authorization`, the
subprotocols `aes.v1` and `aes.token.<bearer token>`, or a public key in the query. If the service rejects a connection,
it accepts the handshake and then closes with code 4401, 4403, 4404 or 4429. After 1012 or 1013, reconnect.
"""
_REF: Final = {"type": "string", "description": "The `ref` of the client's message that caused this message."}
_ID: Final = {
    "type": "string",
    "description": "The position right after this message, as an opaque string. Pass it as `after` to `subscribe`.",
}
_EXAMPLES: Final[dict[str, dict[str, Any]]] = {
    "execute": {"content": "How are our sales?", "idempotency_key": "order-4711", "ref": "1"},
    "cancel": {"turn_id": "0190b5a2-8f6e-7c11-9c43-1f6a0e1b2c3d"},
    "resolve": {
        "turn_id": "0190b5a2-8f6e-7c11-9c43-1f6a0e1b2c3d",
        "action_id": "0190b5a2-9a01-7d20-8f11-2b7c1d3e4f50",
        "decision": "approve",
    },
    "subscribe": {"after": "4711"},
    "ping": {"ref": "2"},
}


def document() -> dict[str, Any]:
    """Builds the AsyncAPI document."""
    described = asyncapi.document()
    received = {f"client.{kind}": _client_message(kind, model) for kind, model in MODELS.items()}
    sent = {**_event_messages(), "server.error": _error(), "server.pong": _pong()}
    components = described["components"]
    components["messages"] |= received | sent
    components["schemas"] |= asyncapi.schemas_of([*MODELS.values(), ErrorInfo])
    described["channels"][CHANNEL] = _channel([*received, *sent])
    described["operations"]["gateway-receives-session-socket"] = _operation("receive", received)
    described["operations"]["gateway-sends-session-socket"] = _operation("send", sent)
    return described


def _channel(names: list[str]) -> dict[str, Any]:
    return {
        "address": route.path,
        "title": "A session's WebSocket",
        "description": _DESCRIPTION,
        "parameters": {"session_id": {"description": "The session's ID."}},
        "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in names},
        "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
    }


def _operation(action: str, messages: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "action": action,
        "channel": {"$ref": f"#/channels/{CHANNEL}"},
        "title": f"The gateway {action}s messages on a session's WebSocket",
        "tags": [{"name": "gateway"}],
        "messages": [{"$ref": f"#/channels/{CHANNEL}/messages/{name}"} for name in messages],
    }


def _client_message(kind: str, model: type[BaseModel]) -> dict[str, Any]:
    return {
        "name": kind,
        "title": model.__name__,
        "summary": asyncapi.summary_of(model),
        "contentType": "application/json",
        "tags": [{"name": "websocket"}],
        "payload": {"$ref": f"#/components/schemas/{model.__name__}"},
        "examples": [{"name": kind, "payload": {"type": kind, **_EXAMPLES[kind]}}],
    }


def _event_messages() -> dict[str, Any]:
    """Returns the messages that the server sends for a session's events and texts."""
    return {
        f"server.{public_name(name)}": _event_message(name, model)
        for name, (model, topic) in published_messages().items()
        if topic.kind is not TopicKind.COMMANDS and model is not CommandRejected and _is_of_session(model)
    }


def _is_of_session(model: type[Message]) -> bool:
    # ArtifactUploaded contains its session's ID inside the artifact.
    return "session_id" in model.model_fields or model is ArtifactUploaded


def _event_message(event_type: str, model: type[Message]) -> dict[str, Any]:
    name = public_name(event_type)
    data = examples_of(event_type)[0]["payload"]
    return {
        **_server_message(name, {"id": _ID, "data": {"$ref": f"#/components/schemas/{model.__name__}"}}),
        "summary": asyncapi.summary_of(model),
        "examples": [{"name": name, "payload": {"type": name, "id": "4711", "data": data}}],
    }


def _error() -> dict[str, Any]:
    error = {"type": "conflict_error", "message": "The turn has ended.", "correlation_id": "order-4711"}
    return {
        **_server_message("error", {"error": {"$ref": "#/components/schemas/ErrorInfo"}}),
        "summary": "A message failed. The connection stays open.",
        "examples": [{"name": "error", "payload": {"type": "error", "ref": "1", "error": error}}],
    }


def _pong() -> dict[str, Any]:
    return {
        **_server_message("pong", {}),
        "summary": "The response to `ping`.",
        "examples": [{"name": "pong", "payload": {"type": "pong", "ref": "2"}}],
    }


def _server_message(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "title": f"{name} on the WebSocket",
        "contentType": "application/json",
        "tags": [{"name": "websocket"}],
        "payload": {
            "type": "object",
            "required": ["type", *fields],
            "properties": {"type": {"const": name}, "ref": _REF, **fields},
        },
    }
