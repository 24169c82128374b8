"""Converts results of MCP tools to text and artifacts."""

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
    TextResourceContents,
)

from libs.contracts.errors import ServiceError
from libs.contracts.file_types import TYPES
from libs.json_text import NotJson, read_json, write_json
from services.runtime.adapters.tools.toolsets.mcp.answers import CUT
from services.runtime.domain.artifacts import SessionArtifacts
from services.runtime.domain.conversation import ArtifactRef
from services.runtime.domain.tools import ToolContext, ToolFailed, ToolOutput

_IMAGES: Final = {ending: TYPES[ending] for ending in ("png", "jpg", "gif", "webp")}


async def tool_output(
    result: CallToolResult, tool: str, artifacts: SessionArtifacts | None, context: ToolContext
) -> ToolOutput:
    """Converts a result to text and artifacts, with notes on omitted content. Raises ToolFailed if it's an error."""
    texts = [block.text for block in result.content if isinstance(block, TextContent)]
    if result.structured_content is not None and not _repeats(texts, result.structured_content):
        texts.append(write_json(result.structured_content).decode())
    if result.is_error:
        texts += [_as_text(block) for block in result.content if not isinstance(block, TextContent)]
        raise ToolFailed("\n".join(text for text in texts if text) or "the tool failed without an error message")
    kept: list[ArtifactRef] = []
    for number, block in enumerate(result.content):
        if (image := _image(block)) is not None:
            made = await _kept(*image, f"{tool}-{number + 1}", number, artifacts, context)
            if isinstance(made, ArtifactRef):
                kept.append(made)
                texts.append(f"Created {made.name} ({made.size} bytes), artifact {made.artifact_id}.")
            else:
                texts.append(made)
        elif not isinstance(block, TextContent):
            texts.append(_as_text(block))
    text = "\n".join(text for text in texts if text) or "(no content)"
    return ToolOutput(text, artifacts=tuple(kept), cut=(result.meta or {}).get(CUT) is True)


def _repeats(texts: Sequence[str], structured: Any) -> bool:
    """Returns whether the texts only repeat the structured content, as the protocol recommends."""
    wrapped = structured.get("result") if isinstance(structured, dict) and list(structured) == ["result"] else None
    whole = "\n".join(texts)
    if isinstance(wrapped, str) and whole == wrapped:
        return True
    try:
        parsed = [read_json(text) for text in texts]
    except NotJson:
        return False
    # A list is often sent as one text per item.
    return structured in parsed or (wrapped is not None and (wrapped in parsed or wrapped == parsed))


def _image(block: ContentBlock) -> tuple[str, str] | None:
    """Returns the MIME type and Base64 data if the block is an image or a resource with an image type."""
    if isinstance(block, ImageContent):
        return block.mime_type, block.data
    if not isinstance(block, EmbeddedResource) or isinstance(block.resource, TextResourceContents):
        return None
    kind = block.resource.mime_type or ""
    return (kind, block.resource.blob) if kind.lower().startswith("image/") else None


async def _kept(
    kind: str, data: str, name: str, number: int, artifacts: SessionArtifacts | None, context: ToolContext
) -> ArtifactRef | str:
    """Stores the image as a session artifact, or returns a note on why it can't be stored."""
    kind = kind.lower()[:50]
    if artifacts is None or not context.session_id:
        return f"[omitted: an image ({kind}), because images can only be stored in a session]"
    try:
        content = base64.b64decode("".join(data.split()), validate=True)
    except (binascii.Error, ValueError):
        return f"[omitted: an image ({kind}) that isn't valid Base64]"
    ending = next((ending for ending, image in _IMAGES.items() if image.begins(content)), None)
    if ending is None:
        known = ", ".join(image.content_type for image in _IMAGES.values())
        return f"[omitted: an image ({kind}) that isn't one of {known}]"
    try:
        made = await artifacts.create(
            context.session_id,
            context.caller,
            name=f"{name}.{ending}",
            key=f"{context.turn_id}/{context.call_id}/{number}",
            content=content,
        )
    except ServiceError as problem:
        return f"[omitted: an image ({kind}): {problem.message}]"
    return ArtifactRef(made.artifact_id, made.name, made.content_type, made.size)


def _as_text(block: EmbeddedResource | ResourceLink | ImageContent | AudioContent) -> str:
    """Returns a resource's text, a link to it, or a note about unsupported content."""
    if isinstance(block, EmbeddedResource):
        uri = str(block.resource.uri)[:500]
        if isinstance(block.resource, TextResourceContents):
            return f"[resource {uri}]\n{block.resource.text}"
        return f"[omitted: the resource at {uri} ({(block.resource.mime_type or 'of unknown type')[:50]})]"
    if isinstance(block, ResourceLink):
        about = block.description or block.title
        link = f"[link to the resource {block.name[:200]!r} at {str(block.uri)[:500]}]"
        return f"{link} {about[:1_000]}" if about else link
    return f"[omitted: {'an image' if isinstance(block, ImageContent) else 'audio'} ({block.mime_type[:50]})]"
