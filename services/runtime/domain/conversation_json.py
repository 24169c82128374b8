"""Encodes conversations as JSON for recorded steps and stored messages.

Parts have the form of the API's content blocks. Unknown fields are ignored, because newer versions may add some.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from services.runtime.domain.conversation import (
    ArtifactPart,
    ArtifactRef,
    AssistantMessage,
    Citation,
    ImagePart,
    JsonObject,
    Message,
    ModelAnswer,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)

_ARTIFACT_FIELDS = {"name": "name", "content_type": "content_type", "processing_strategy": "strategy"}
_CITATION_FIELDS = tuple(field.name for field in fields(Citation))
_REF_FIELDS = tuple(field.name for field in fields(ArtifactRef))
_USAGE_FIELDS = tuple(field.name for field in fields(Usage))


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
    data: JsonObject = {"id": call.id, "name": call.name, "arguments": call.arguments}
    if call.validation_error is not None:
        data["fault"] = call.validation_error
    if call.provider_data is not None:
        data["provider_data"] = call.provider_data
    return data


def tool_call_from_json(data: Mapping[str, Any]) -> ToolCall:
    return ToolCall(data["id"], data["name"], data["arguments"], data.get("fault"), data.get("provider_data"))


def tool_result_to_json(result: ToolResult) -> JsonObject:
    data: JsonObject = {
        "call_id": result.call_id,
        "name": result.name,
        "output": result.output,
        "status": result.status,
    }
    if result.citations:
        data["citations"] = [citation.to_json() for citation in result.citations]
    if result.artifacts:
        data["artifacts"] = [asdict(artifact) for artifact in result.artifacts]
    if result.warnings:
        data["warnings"] = list(result.warnings)
    return data


def tool_result_from_json(data: Mapping[str, Any]) -> ToolResult:
    return ToolResult(
        call_id=data["call_id"],
        name=data["name"],
        output=data["output"],
        status=data["status"],
        citations=_citations(data),
        artifacts=tuple(ArtifactRef(**_known(item, _REF_FIELDS)) for item in data.get("artifacts", ())),
        warnings=tuple(data.get("warnings", ())),
    )


def answer_to_json(answer: ModelAnswer) -> JsonObject:
    data: JsonObject = {
        "text": answer.text,
        "tool_calls": [tool_call_to_json(call) for call in answer.tool_calls],
        "usage": {name: getattr(answer.usage, name) for name in _USAGE_FIELDS},
        "finish_reason": answer.finish_reason,
    }
    if answer.citations:
        data["citations"] = [citation.to_json() for citation in answer.citations]
    if answer.provider_data is not None:
        data["provider_data"] = answer.provider_data
    return data


def answer_from_json(data: Mapping[str, Any]) -> ModelAnswer:
    return ModelAnswer(
        text=data["text"],
        tool_calls=tuple(tool_call_from_json(call) for call in data["tool_calls"]),
        usage=Usage(**_known(data["usage"], _USAGE_FIELDS)),
        finish_reason=data["finish_reason"],
        citations=_citations(data),
        provider_data=data.get("provider_data"),
    )


def _citations(data: Mapping[str, Any]) -> tuple[Citation, ...]:
    return tuple(Citation(**_known(item, _CITATION_FIELDS)) for item in data.get("citations", ()))


def _known(data: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: data[name] for name in names if name in data}
