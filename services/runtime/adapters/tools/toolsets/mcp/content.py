"""Results of MCP tools as text and artifacts."""

import base64
import binascii
from collections.abc import Sequence
from typing import Any, Final

from mcp.types import (
    AudioContent,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from libs.contracts.errors import ServiceError
from libs.json_text import NotJson, read_json, write_json
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import ArtifactRef
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput

_ENDINGS: Final = {"image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp"}


async def tool_output(
    result: CallToolResult, tool: str, artifacts: SessionArtifacts | None, context: ToolContext
) -> ToolOutput:
    """Text as it is, structured content as JSON, images as artifacts; what is left out is said. Raises ToolFailed."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.is_error:
        raise ToolFailed("\n".join(texts) or "the tool failed without a message")
    if result.structured_content is not None and not _repeats(texts, result.structured_content):
        texts.append(write_json(result.structured_content).decode())
    kept: list[ArtifactRef] = []
    for number, block in enumerate(result.content):
        if isinstance(block, ImageContent):
            made = await _kept(block, f"{tool}-{number + 1}", number, artifacts, context)
            if isinstance(made, ArtifactRef):
                kept.append(made)
                texts.append(f"Made {made.name} ({made.size} bytes), artifact {made.artifact_id}.")
            else:
                texts.append(made)
        elif not isinstance(block, TextContent):
            texts.append(_left_out(block))
    return ToolOutput("\n".join(text for text in texts if text) or "(no content)", artifacts=tuple(kept))


def _repeats(texts: Sequence[str], structured: Any) -> bool:
    """Whether a text is the structured content once more, as the protocol recommends."""
    wrapped = structured.get("result") if isinstance(structured, dict) and list(structured) == ["result"] else None
    whole = "\n".join(texts)
    if isinstance(wrapped, str) and whole == wrapped:
        return True
    try:
        parsed = [read_json(text) for text in texts]
    except NotJson:
        return False
    # A list is often sent as a text for each of its items.
    return structured in parsed or (wrapped is not None and (wrapped in parsed or wrapped == parsed))


async def _kept(
    image: ImageContent, name: str, number: int, artifacts: SessionArtifacts | None, context: ToolContext
) -> ArtifactRef | str:
    """The image as an artifact of the session, or why it is none. A repeated call gets the same one."""
    kind = image.mime_type.lower()
    if artifacts is None or not context.session_id:
        return f"[left out: an image ({kind}); there is no session to keep it in]"
    if kind not in _ENDINGS:
        return f"[left out: an image ({kind[:50]}), which is none of {', '.join(_ENDINGS)}]"
    try:
        content = base64.b64decode(image.data, validate=True)
        made = await artifacts.create(
            context.session_id,
            context.caller,
            name=name + _ENDINGS[kind],
            key=f"{context.turn_id}/{context.call_id}/{number}",
            content=content,
        )
    except binascii.Error:
        return f"[left out: an image ({kind}) that is not valid base64]"
    except ServiceError as problem:
        return f"[left out: an image ({kind}): {problem.message}]"
    return ArtifactRef(made.artifact_id, made.name, made.content_type, made.size)


def _left_out(block: ContentBlock) -> str:
    if isinstance(block, AudioContent):
        return f"[left out: audio ({block.mime_type[:50]})]"
    if isinstance(block, ResourceLink):
        return f"[left out: a link to the resource {block.name[:200]!r} at {str(block.uri)[:500]}]"
    if isinstance(block, EmbeddedResource):
        return f"[left out: the resource at {str(block.resource.uri)[:500]}]"
    return f"[left out: {type(block).__name__}]"
