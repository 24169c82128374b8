"""Converts A2A messages into the content of a new turn, or into answers for a waiting turn."""

from collections.abc import Iterator
from typing import Any, Final

import orjson
from a2a.types.a2a_pb2 import Message, Part, SendMessageConfiguration
from a2a.utils.errors import (
    ContentTypeNotSupportedError,
    InvalidParamsError,
    PushNotificationNotSupportedError,
)
from google.protobuf.json_format import MessageToDict
from pydantic import TypeAdapter, ValidationError

from libs.contracts.errors import dotted_path, validation_message
from libs.contracts.resources.actions import ResolveActionBody
from libs.contracts.resources.messages import MessageBlocks
from services.gateway.entrypoints.door.image_bodies import Found

OUTPUT_MODES: Final = ("text/plain", "application/json")
INPUT_MODES: Final = ("text/plain", "application/json", "image/*")
NO_PUSH_NOTIFICATIONS: Final = "Push notifications aren't supported. Create a webhook instead: POST /api/v1/webhooks/."
_BLOCKS: Final[TypeAdapter[MessageBlocks]] = TypeAdapter(MessageBlocks)
_ANY: Final = ("*/*", "text", "text/*")


def check_configuration(configuration: SendMessageConfiguration) -> None:
    """Raises an error for push notifications, or if the client accepts neither text nor JSON."""
    if configuration.HasField("task_push_notification_config"):
        raise PushNotificationNotSupportedError(NO_PUSH_NOTIFICATIONS)
    accepted = configuration.accepted_output_modes
    if accepted and not any(mode in (*OUTPUT_MODES, *_ANY) for mode in accepted):
        raise ContentTypeNotSupportedError(
            f"Agents reply only with {' or '.join(OUTPUT_MODES)}. Accept at least one of these."
        )


def content_of(message: Message) -> MessageBlocks:
    """Converts a message into a turn's content. Data parts become JSON text."""
    blocks = list(_blocks(message))
    try:
        return _BLOCKS.validate_python(blocks)
    except ValidationError as problem:
        raise _invalid(problem, "message", "parts") from None


def find_raw_image(part: dict[str, Any]) -> Found | None:
    """Returns the image in a part of a message, or None."""
    raw, media_type = part.get("raw"), part.get("mediaType", part.get("media_type"))
    if not isinstance(media_type, str) or not media_type.startswith("image/"):
        return None

    def put(url: str) -> None:
        part.pop("raw", None)
        part["url"] = url

    if isinstance(raw, str):
        return Found(raw, ("raw",), put)
    url = part.get("url")
    return Found(url, ("url",), put) if isinstance(url, str) and url[:5].lower() == "data:" else None


def answers_of(message: Message) -> dict[str, ResolveActionBody]:
    """Returns the answers by action ID, from data parts such as ``{action_id, decision | output | error}``."""
    answers: dict[str, ResolveActionBody] = {}
    for number, part in enumerate(message.parts):
        data = _data(part)
        if not isinstance(data, dict) or not isinstance(action_id := data.pop("action_id", None), str):
            raise InvalidParamsError(
                f"message.parts.{number}: must be a data part that answers one of the task's actions: {{action_id,"
                " decision | output | error}."
            )
        try:
            answers[action_id] = ResolveActionBody.model_validate(data)
        except ValidationError as problem:
            raise _invalid(problem, "message", "parts", number, "data") from None
    return answers


def _invalid(problem: ValidationError, *within: str | int) -> InvalidParamsError:
    """Returns an error for the first validation error."""
    found = problem.errors(include_url=False)[0]
    path = dotted_path([*within, *found["loc"]])
    return InvalidParamsError(f"{path}: {validation_message(found)}.")


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    for number, part in enumerate(message.parts):
        kind = part.WhichOneof("content")
        if kind == "text":
            yield {"type": "text", "text": part.text}
        elif kind == "data":
            yield {"type": "text", "text": orjson.dumps(_data(part), option=orjson.OPT_SORT_KEYS).decode()}
        elif kind == "url" and part.media_type.startswith("image/"):
            yield {"type": "image_url", "image_url": {"url": part.url}}
        else:
            raise ContentTypeNotSupportedError(
                f"message.parts.{number}: must be text, data or an image. Upload other files with POST"
                " /api/v1/sessions/{contextId}/artifacts/."
            )


def _data(part: Part) -> Any:
    return _with_integers(MessageToDict(part)["data"]) if part.WhichOneof("content") == "data" else None


def _with_integers(value: Any) -> Any:
    """Converts whole numbers back into integers, because the protocol's data has only floats."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, list):
        return [_with_integers(each) for each in value]
    return {name: _with_integers(each) for name, each in value.items()} if isinstance(value, dict) else value
