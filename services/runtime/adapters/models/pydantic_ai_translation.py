"""Translates conversations to and from pydantic-ai's types. Import it lazily: importing pydantic-ai takes seconds."""

from dataclasses import replace
from typing import Any, Final, cast

from pydantic_ai import messages as theirs
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from libs.json_text import without_half_pairs, without_half_pairs_in
from services.runtime.adapters.models.failures import ANSWER_SECONDS
from services.runtime.adapters.models.openai_answers import decode_call
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    ImagePart,
    JsonObject,
    ModelAnswer,
    TextPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    token_count,
)
from services.runtime.domain.models import ModelRequest

_RESPONSE: Final = "response"


def messages(request: ModelRequest) -> list[theirs.ModelMessage]:
    """Translates the conversation. All messages between two answers become a single pydantic-ai request."""
    result: list[theirs.ModelMessage] = []
    parts: list[theirs.ModelRequestPart] = []
    for message in request.messages:
        if not isinstance(message, AssistantMessage):
            parts.append(_request_part(message))
            continue
        if parts:
            result.append(theirs.ModelRequest(parts))
            parts = []
        result.append(_as_sent(message) or _from_message(message))
    if parts:
        result.append(theirs.ModelRequest(parts))
    return result


def _request_part(message: UserMessage | ToolMessage) -> theirs.ModelRequestPart:
    if isinstance(message, ToolMessage):
        result = message.result
        return theirs.ToolReturnPart(
            tool_name=result.name,
            content=result.output,
            tool_call_id=result.call_id,
            outcome="failed" if result.is_error else "success",
        )
    content = [_content(part) for part in message.parts if not isinstance(part, ArtifactPart)]
    return theirs.UserPromptPart(message.text if not message.has_image else content)


def _content(part: TextPart | ImagePart) -> theirs.UserContent:
    if isinstance(part, TextPart):
        return part.text
    detail = None if part.detail is None else {"detail": part.detail}
    if not part.url.startswith("data:"):
        return theirs.ImageUrl(part.url, vendor_metadata=detail)
    # Providers can't fetch a data URL, although some SDKs try to.
    return replace(theirs.BinaryContent.from_data_uri(part.url), vendor_metadata=detail)


def _as_sent(message: AssistantMessage) -> theirs.ModelResponse | None:
    """Returns the provider's response with its reasoning and signatures, or None if it's missing or unusable."""
    kept = (message.provider_data or {}).get(_RESPONSE)
    try:
        [response] = theirs.ModelMessagesTypeAdapter.validate_python([] if kept is None else [kept])
    except ValueError:
        return None
    asked = [cast(theirs.ToolCallPart, part) for part in response.parts if isinstance(part, theirs.ToolCallPart)]
    if not isinstance(response, theirs.ModelResponse) or len(asked) != len(message.tool_calls):
        return None
    # Names and IDs may differ from the stored response.
    calls = {
        id(part): replace(part, tool_name=call.name, args=call.arguments, tool_call_id=call.id)
        for part, call in zip(asked, message.tool_calls, strict=True)
    }
    return replace(response, parts=[calls.get(id(part), part) for part in response.parts])


def _from_message(message: AssistantMessage) -> theirs.ModelResponse:
    parts: list[theirs.ModelResponsePart] = [theirs.TextPart(message.text)] if message.text else []
    parts.extend(
        theirs.ToolCallPart(tool_name=call.name, args=call.arguments, tool_call_id=call.id)
        for call in message.tool_calls
    )
    return theirs.ModelResponse(parts)


def settings(request: ModelRequest, *, stream: bool) -> ModelSettings:
    """Returns pydantic-ai's settings, without the SDK's own retries."""
    chosen = cast(ModelSettings, {"max_retries": 0, "timeout": ANSWER_SECONDS, **request.sampling()})
    if not stream:
        chosen["request_timeout"] = ANSWER_SECONDS
    if request.settings.stop:
        chosen["stop_sequences"] = request.settings.stop
    if request.answer_in_text and request.tools:
        chosen["tool_choice"] = "none"
    elif request.tools:
        chosen |= _calling(request)
    return chosen


def _calling(request: ModelRequest) -> ModelSettings:
    chosen = ModelSettings()
    if (forced := request.settings.forced_call) is not None:
        chosen["tool_choice"] = "required" if forced == "required" else [forced.name]
    if request.settings.parallel_tool_calls is not None:
        chosen["parallel_tool_calls"] = request.settings.parallel_tool_calls
    return chosen


def takes_schema(model: Model, request: ModelRequest) -> bool:
    """Returns whether to send the output schema natively. Most models don't support that in combination with tools."""
    native = model.profile.get("supports_json_schema_output", False)
    return bool(native) and request.output_object is not None and not request.tools


def parameters(request: ModelRequest, *, native_output: bool = False) -> ModelRequestParameters:
    instructions = request.instructions(native_output=native_output)
    tools = [
        ToolDefinition(name=tool.name, parameters_json_schema=tool.parameters, description=tool.description)
        for tool in request.tools
    ]
    return ModelRequestParameters(
        function_tools=tools,
        instruction_parts=[theirs.InstructionPart(content=instructions)] if instructions else None,
        output_mode="native" if native_output else "text",
        output_object=OutputObjectDefinition(request.output_object or {}, name="output") if native_output else None,
    )


def text_of(event: Any) -> str:
    """Returns the text in a stream event, or ""."""
    if isinstance(event, theirs.PartStartEvent) and isinstance(event.part, theirs.TextPart):
        return event.part.content
    if isinstance(event, theirs.PartDeltaEvent) and isinstance(event.delta, theirs.TextPartDelta):
        return event.delta.content_delta
    return ""


def answer(response: theirs.ModelResponse) -> ModelAnswer:
    calls = tuple(_call(part) for part in response.parts if isinstance(part, theirs.ToolCallPart))
    text = without_half_pairs("".join(part.content for part in response.parts if isinstance(part, theirs.TextPart)))
    usage = response.usage
    counted = Usage(
        token_count(usage.input_tokens),
        token_count(usage.output_tokens),
        token_count(usage.cache_read_tokens),
        model_calls=1,
    )
    finish = {"tool_call": "tool_calls"}.get(response.finish_reason or "", response.finish_reason or "stop")
    return ModelAnswer(text, calls, counted, "tool_calls" if calls else finish, provider_data=_provider_data(response))


def _provider_data(response: theirs.ModelResponse) -> JsonObject | None:
    """Returns the whole response to store, or None if it contains nothing but text and calls."""
    if not any(
        isinstance(part, theirs.ThinkingPart) or getattr(part, "provider_details", None) for part in response.parts
    ):
        return None
    [kept] = theirs.ModelMessagesTypeAdapter.dump_python([response], mode="json")
    return {_RESPONSE: without_half_pairs_in(kept)}


def _call(part: theirs.ToolCallPart) -> ToolCall:
    call_id, name = without_half_pairs(part.tool_call_id), without_half_pairs(part.tool_name)
    if isinstance(part.args, dict):
        return ToolCall(call_id, name, without_half_pairs_in(part.args))
    return decode_call(call_id, name, without_half_pairs(part.args or ""))
