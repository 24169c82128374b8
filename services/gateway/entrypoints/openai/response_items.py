"""Builds the items of responses."""

from collections.abc import Sequence
from typing import Any

from libs.contracts.citations import Citation
from libs.contracts.replies import ToolCallRecord, Usage
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import RequiredAction
from libs.json_text import write_json

Json = dict[str, Any]


def message_item(item_id: str, text: str, status: str, citations: Sequence[Citation] = (), *, final: bool) -> Json:
    """Returns a message from the agent. Text that isn't part of the reply is marked as ``commentary``."""
    return {
        "id": item_id,
        "type": "message",
        "role": "assistant",
        "status": status,
        "phase": "final_answer" if final else "commentary",
        "content": [text_part(text, citations)],
    }


def text_part(text: str, citations: Sequence[Citation] = ()) -> Json:
    annotations = [
        {"type": "file_citation", "file_id": cited.file_id, "filename": cited.file_name or "", "index": len(text)}
        for cited in citations
        if cited.file_id is not None
    ]
    return {"type": "output_text", "text": text, "annotations": annotations, "logprobs": []}


def function_call_item(item_id: str, call: RequestedToolCall | ToolCallRecord) -> Json:
    return {
        "id": item_id,
        "type": "function_call",
        "status": "completed",
        "call_id": call.id,
        "name": call.name,
        "arguments": json_text(call.arguments),
    }


def approval_request_item(action: RequiredAction) -> Json:
    label, name = server_and_name(action.tool_call.name)
    return {
        "id": f"mcpr_{action.action_id}",
        "type": "mcp_approval_request",
        "server_label": label,
        "name": name,
        "arguments": json_text(action.tool_call.arguments),
    }


def tool_call_item(item_id: str, tool: str, arguments: Json, output: str | None, reason: str | None) -> Json:
    """Returns a call that the agent executed, as a call to an MCP server with the toolset's name."""
    label, name = server_and_name(tool)
    error = None
    if reason is not None:
        error = {"type": "mcp_tool_execution_error", "content": [{"type": "text", "text": reason}]}
    return {
        "id": item_id,
        "type": "mcp_call",
        "status": "completed" if reason is None else "failed",
        "server_label": label,
        "name": name,
        "arguments": json_text(arguments),
        "output": output,
        "error": error,
    }


def history_items(message_id: str, role: str, blocks: Sequence[Json]) -> list[Json]:
    """Converts a message of a session's history into items. Calls and their results become separate items."""
    content = [block for block in blocks if block.get("type") not in ("tool_call", "tool_result")]
    calls = [block for block in blocks if block.get("type") == "tool_call"]
    results = [block for block in blocks if block.get("type") == "tool_result"]
    return [
        *([_message_item(message_id, role, content)] if content else []),
        *(
            function_call_item(f"fc_{message_id}_{number}", RequestedToolCall.model_validate(call))
            for number, call in enumerate(calls)
        ),
        *(
            {
                "type": "function_call_output",
                "id": f"fco_{message_id}_{number}",
                "status": "completed",
                "call_id": result["call_id"],
                "output": result["output"],
            }
            for number, result in enumerate(results)
        ),
    ]


def _message_item(message_id: str, role: str, blocks: Sequence[Json]) -> Json:
    return {
        "type": "message",
        "id": f"msg_{message_id}",
        "status": "completed",
        "role": role,
        "content": [_part(block, role) for block in blocks],
    }


def _part(block: Json, role: str) -> Json:
    match block.get("type"):
        case "image_url":
            image = block["image_url"]
            return {"type": "input_image", "detail": image.get("detail", "auto"), "image_url": image["url"]}
        case "text" if role == "assistant":
            return text_part(block["text"])
        case "text":
            return {"type": "input_text", "text": block["text"]}
        case _:
            named = block.get("name") or block.get("url") or block.get("source", {}).get("artifact_id", "")
            return {"type": "input_text", "text": f"[file {named}]"}


def server_and_name(tool: str) -> tuple[str, str]:
    """Splits a tool's name into the toolset and the tool's own name. Built-in tools have the toolset ``builtin``."""
    label, dot, name = tool.partition(".")
    return (label, name) if dot else ("builtin", tool)


def usage_object(usage: Usage) -> Json:
    return {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": usage.output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }


def json_text(value: Any) -> str:
    return write_json(value).decode()
