"""Omits invalid parts of MCP servers' responses, because the SDK would reject the whole response."""

from collections.abc import Iterator
from typing import Any, Final

import orjson
from mcp.types import ContentBlock
from mcp.types.methods import parse_server_result
from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from libs.json_text import NotJson, read_json, write_json
from services.runtime.domain.conversation import JsonObject

LEFT_OUT: Final = "aes/left-out"
"""The key in a tool list's `_meta` whose value lists each omitted tool's name and the reason."""
LISTED: Final = "aes/listed"
"""The key in a tool list's `_meta` whose value lists the tools passed to the SDK. The SDK may drop some of them."""
CUT: Final = "aes/cut"
"""The key in a result's `_meta` that is set if only the start of the result was read."""

_BLOCK: Final[TypeAdapter[ContentBlock]] = TypeAdapter(ContentBlock)
# A tool that is valid in this version is also valid in earlier versions and in the next one.
_VERSION: Final = "2025-11-25"
_USED: Final = ("name", "title", "description", "inputSchema", "annotations")


def readable(body: bytes) -> bytes:
    """Returns the response without its malformed parts. If nothing changes, returns the same object."""
    message = _message(body)
    if message is None:
        return body
    result = message["result"]
    if isinstance(result.get("tools"), list):
        _leave_out_tools(result)
    elif not _complete_result(result):
        return body
    return write_json(message)


def beginning(part: bytes, request: bytes) -> bytes | None:
    """Builds a valid response from `part`, the start of a large one. Returns None unless that's a call's result.

    The ID comes from `request`, because the unread part may contain the response's ID.
    """
    try:
        message = from_json(part.decode("utf-8", "ignore"), allow_partial="trailing-strings")
        asked = orjson.loads(request)["id"]
    except (ValueError, LookupError, TypeError):
        return None
    result = message.get("result") if isinstance(message, dict) else None
    if not isinstance(result, dict) or "tools" in result or not ("content" in result or "structuredContent" in result):
        return None
    content = result.get("content")
    if isinstance(content, list) and content:
        # Structured content repeats the content and may itself be incomplete. Content followed by another field is
        # complete.
        if list(result)[-1] == "content":
            content[-1] = _cut_block(content[-1])
        result.pop("structuredContent", None)
    result = {"resultType": "complete", **result}
    _complete_result(result)
    result["_meta"] = {CUT: True}
    return write_json({"jsonrpc": "2.0", "id": asked, "result": result})


def _message(body: bytes) -> JsonObject | None:
    """Parses a JSON-RPC message. Returns None unless the result is an object."""
    try:
        message = read_json(body)
    except NotJson:
        return None
    return message if isinstance(message, dict) and isinstance(message.get("result"), dict) else None


def _leave_out_tools(result: JsonObject) -> None:
    kept, left_out = [], []
    for number, tool in enumerate(result["tools"], 1):
        reason = _reason_against(tool)
        if reason is None:
            kept.append(_used(tool))
        else:
            left_out.append([_name(tool, number), reason])
    result["tools"] = kept
    result["_meta"] = {LEFT_OUT: left_out, LISTED: [tool["name"] for tool in kept]}
    if result.get("nextCursor") == "":
        del result["nextCursor"]


def _reason_against(tool: Any) -> str | None:
    if not isinstance(tool, dict):
        return "it isn't an object"
    if not isinstance(tool.get("name"), str):
        return "it doesn't have a name"
    schema = tool.get("inputSchema")
    if not isinstance(schema, dict):
        return "its inputSchema isn't an object"
    if schema.get("type") != "object":
        return "its inputSchema doesn't have the type 'object'"
    try:
        parse_server_result("tools/list", _VERSION, {"tools": [_used(tool)]})
    except ValidationError as problem:
        _, _, field, *_ = problem.errors()[0]["loc"]
        return f"its {field} violates the protocol"
    return None


def _used(tool: JsonObject) -> JsonObject:
    return {field: tool[field] for field in _USED if field in tool}


def _name(tool: Any, number: int) -> str:
    name = tool.get("name") if isinstance(tool, dict) else None
    return name if isinstance(name, str) and name else f"(number {number})"


def _complete_result(result: JsonObject) -> bool:
    """Repairs a call's result in place. Returns whether anything changed."""
    before = dict(result)
    structured = result.get("structuredContent")
    if "content" not in result and structured is None:
        return False
    if result.get("content") is None and structured is not None:
        result["content"] = []
    if structured is not None and not isinstance(structured, dict):
        # Protocol versions before 2026 only support objects.
        result["structuredContent"] = {"result": structured}
    if "isError" in result and result["isError"] is None:
        del result["isError"]
    if isinstance(result.get("_meta"), dict):
        result["_meta"] = {name: value for name, value in result["_meta"].items() if name != CUT}
    if isinstance(result["content"], list):
        blocks = list(_blocks(result["content"]))
        if structured is not None or any(block is each for block, each in zip(blocks, result["content"], strict=True)):
            result["content"] = blocks
    return result != before


def _blocks(content: list[Any]) -> Iterator[Any]:
    for block in content:
        try:
            _BLOCK.validate_python(block, by_name=False)
        except ValidationError:
            yield _omission_note(block)
        else:
            yield block


def _cut_block(block: Any) -> Any:
    """Completes the last content block of a partial response. Drops binary data, which is useless if incomplete."""
    if not isinstance(block, dict):
        return block
    resource = block.get("resource")
    if "data" in block or (isinstance(resource, dict) and "blob" in resource):
        return _omission_note(block)
    if isinstance(resource, dict) and "text" in resource:
        return {**block, "type": "resource", "resource": {"uri": "(unknown)", **resource}}
    return {**block, "type": "text"} if "text" in block else block


def _omission_note(block: Any) -> JsonObject:
    kind = block.get("type") if isinstance(block, dict) else None
    named = f" of type {kind[:50]}" if isinstance(kind, str) else ""
    return {"type": "text", "text": f"[omitted: unreadable content{named}]"}
