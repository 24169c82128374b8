"""Items of responses: messages, function calls, the agent's own calls, approvals."""

from collections.abc import Sequence
from typing import Any

from libs.contracts.citations import Citation
from libs.contracts.replies import ToolCallRecord, Usage
from libs.contracts.resources.messages import RequestedToolCall
from libs.contracts.resources.turns import RequiredAction
from libs.json_text import write_json

Json = dict[str, Any]


def message_item(item_id: str, text: str, status: str, citations: Sequence[Citation] = (), *, final: bool) -> Json:
    """Returns a message from the agent. Text outside the reply is ``commentary``."""
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
    """Returns a call made by the agent itself, shown as a call to an MCP server named after the toolset."""
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


def server_and_name(tool: str) -> tuple[str, str]:
    """Returns the toolset and the tool in it; ``builtin`` for the service's tools."""
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
