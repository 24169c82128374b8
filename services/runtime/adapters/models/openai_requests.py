"""Requests for chat completions, as OpenAI-compatible servers take them."""

from typing import Any, Final

from libs.contracts.api.sessions import NamedTool
from libs.json_text import write_json
from services.runtime.domain.conversation import (
    AssistantMessage,
    JsonObject,
    Message,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from services.runtime.domain.conversation_json import part_to_json
from services.runtime.domain.models import ModelRequest
from services.runtime.domain.tools import ToolDefinition

_STRICT_KEYWORDS: Final = frozenset(
    ("type", "properties", "required", "additionalProperties", "items", "enum", "anyOf", "title", "description")
)


def encode_request(request: ModelRequest, name: str, *, stream: bool, native_output: bool = False) -> bytes:
    """`native_output`: the output schema is sent as the response's format instead of among the instructions."""
    body: JsonObject = {"model": name, "messages": _messages(request, native_output=native_output)}
    if native_output:
        schema = request.output_schema or {}
        output = {"name": "output", "schema": schema, "strict": _is_strict(schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": output}
    if request.callable_tools:
        body["tools"] = [_tool(tool) for tool in request.callable_tools]
        body |= _calling(request)
    if request.stop:
        body["stop"] = request.stop
    body |= request.sampling()
    if stream:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return write_json(body)


def _is_strict(schema: Any) -> bool:
    """Whether servers can guarantee the schema: closed objects with required properties, of the simplest keywords."""
    if not isinstance(schema, dict) or not schema.keys() <= _STRICT_KEYWORDS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    below = [*properties.values(), *schema.get("anyOf", ()), *([schema["items"]] if "items" in schema else [])]
    return all(_is_strict(each) for each in below)


def _messages(request: ModelRequest, *, native_output: bool) -> list[JsonObject]:
    system = request.instructions(native_output=native_output)
    messages: list[JsonObject] = [{"role": "system", "content": system}] if system else []
    messages.extend(_message(message) for message in request.messages)
    return messages


def _message(message: Message) -> JsonObject:
    match message:
        case UserMessage():
            return {"role": "user", "content": _user_content(message)}
        case AssistantMessage():
            data = message.provider_data or {}
            if not message.tool_calls:
                return {"role": "assistant", "content": message.text, **data}
            calls = [_call(call) for call in message.tool_calls]
            return {"role": "assistant", "content": message.text or None, "tool_calls": calls, **data}
        case ToolMessage(result):
            return {"role": "tool", "tool_call_id": result.call_id, "content": result.output}


def _user_content(message: UserMessage) -> str | list[JsonObject]:
    match message.parts:
        case (TextPart(text),):
            return text
        case parts:
            return [part_to_json(part) for part in parts]


def _call(call: ToolCall) -> JsonObject:
    arguments = write_json(call.arguments).decode()
    function = {"name": call.name, "arguments": arguments}
    return {"id": call.id, "type": "function", "function": function, **(call.provider_data or {})}


def _tool(tool: ToolDefinition) -> JsonObject:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _calling(request: ModelRequest) -> JsonObject:
    """Settings about calls, which servers take only together with tools."""
    settings: JsonObject = {}
    match request.tool_choice:
        case NamedTool(name=name):
            settings["tool_choice"] = {"type": "function", "function": {"name": name}}
        case "required":
            settings["tool_choice"] = "required"
    if request.parallel_tool_calls is not None:
        settings["parallel_tool_calls"] = request.parallel_tool_calls
    return settings
