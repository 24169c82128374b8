"""Encodes conversations as JSON for recorded steps and stored messages.

Parts have the form of the API's content blocks. Unknown fields are ignored, because newer versions may add some.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter

from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    ImagePart,
    JsonObject,
    Message,
    ModelAnswer,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

T = TypeVar("T")
_ARTIFACT_FIELDS = {"name": "name", "content_type": "content_type", "processing_strategy": "strategy"}
_TOOL_CALL: Final = TypeAdapter(ToolCall)
_TOOL_RESULT: Final = TypeAdapter(ToolResult)
_ANSWER: Final = TypeAdapter(ModelAnswer)


def part_to_json(part: Part) -> JsonObject:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(url):
            return {"type": "image_url", "image_url": {"url": url, **_detail(part)}}
        case ArtifactPart():
            facts = {name: getattr(part, field) for name, field in _ARTIFACT_FIELDS.items()}
            return {**_named(part), **_detail(part), **facts}


def _detail(part: ImagePart | ArtifactPart) -> JsonObject:
    return {} if part.detail is None else {"detail": part.detail}


def _named(part: ArtifactPart) -> JsonObject:
    if part.url is not None:
        return {"type": "image", "url": part.url, "artifact_id": part.artifact_id}
    return {"type": "file", "source": {"artifact_id": part.artifact_id}}


def part_from_json(data: Mapping[str, Any]) -> Part:
    """Decodes a content block. Raises ValueError if its type is unknown."""
    kind = data.get("type")
    if kind in ("file", "image"):
        artifact_id = data["source"]["artifact_id"] if kind == "file" else data["artifact_id"]
        facts = {field: data[name] for name, field in _ARTIFACT_FIELDS.items()}
        return ArtifactPart(artifact_id=artifact_id, url=data.get("url"), detail=data.get("detail"), **facts)
    if kind == "text":
        return TextPart(data["text"])
    if kind == "image_url":
        return ImagePart(data["image_url"]["url"], data["image_url"].get("detail"))
    raise ValueError(f"a model can't read content blocks of type {kind!r}")


def message_to_row(message: Message) -> tuple[str, str, list[JsonObject] | None]:
    """Returns the message's role, text and blocks, as stored. The role of a tool result is `user`."""
    match message:
        case UserMessage(parts):
            plain = all(isinstance(part, TextPart) for part in parts) and len(parts) == 1
            return "user", message.text, None if plain else [part_to_json(part) for part in parts]
        case AssistantMessage(text, tool_calls):
            texts = [{"type": "text", "text": text}] if text else []
            called = [{"type": "tool_call", **tool_call_to_json(call)} for call in tool_calls]
            return "assistant", text, [*texts, *called] if called else None
        case ToolMessage(result):
            return "user", "", [{"type": "tool_result", **tool_result_to_json(result)}]


def message_from_row(role: str, text: str, blocks: Sequence[Mapping[str, Any]] | None) -> Message:
    """Decodes a stored message. Raises ValueError for unknown blocks."""
    if role == "assistant":
        calls = [tool_call_from_json(block) for block in blocks or () if block["type"] == "tool_call"]
        return AssistantMessage(text, tuple(calls))
    if blocks is None:
        return UserMessage((TextPart(text),))
    if blocks and blocks[0]["type"] == "tool_result":
        return ToolMessage(tool_result_from_json(blocks[0]))
    return UserMessage(tuple(part_from_json(block) for block in blocks))


def tool_call_to_json(call: ToolCall) -> JsonObject:
    return _encoded(_TOOL_CALL, call)


def tool_call_from_json(data: Mapping[str, Any]) -> ToolCall:
    return _TOOL_CALL.validate_python(data)


def tool_result_to_json(result: ToolResult) -> JsonObject:
    return {**_encoded(_TOOL_RESULT, result), "status": result.status}


def tool_result_from_json(data: Mapping[str, Any]) -> ToolResult:
    return _TOOL_RESULT.validate_python(data)


def answer_to_json(answer: ModelAnswer) -> JsonObject:
    return {**_encoded(_ANSWER, answer), "usage": asdict(answer.usage)}


def answer_from_json(data: Mapping[str, Any]) -> ModelAnswer:
    return _ANSWER.validate_python(data)


def _encoded(codec: TypeAdapter[T], value: T) -> JsonObject:
    """Returns the fields whose values aren't the default."""
    encoded: JsonObject = codec.dump_python(value, exclude_defaults=True)
    return encoded
