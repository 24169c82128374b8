"""Converts a chat completion's request into a turn."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from libs.contracts.errors import ValidationFailed, validation_details, validation_message
from libs.contracts.resources.messages import ContentBlock, HistoryMessage
from libs.contracts.resources.sessions import SessionBeginning
from libs.contracts.resources.turns import ClientCalls, ExecuteBody, TurnRequest
from services.gateway.domain.accounts import Principal
from services.gateway.domain.turn_options import check_options
from services.gateway.entrypoints.openai.chat_bodies import (
    AssistantMessage,
    Call,
    ChatBody,
    ChatMessage,
    Instruction,
    NamedFunction,
    SchemaText,
    TextPart,
    ToolMessage,
    UserMessage,
)
from services.gateway.entrypoints.openai.conventions import refuse, renamed
from services.gateway.entrypoints.openai.message_parts import arguments_in, image_given
from services.gateway.entrypoints.openai.response_request import TextFormat

_EXPIRES_SECONDS: Final = 24 * 3600
NAMES: Final = {
    "options.instructions": "messages",
    "options.client_tools": "tools",
    "options.output_schema": "response_format.json_schema.schema",
    "options.max_tokens": "max_completion_tokens",
    "options": "",
    "content": "messages",
}
"""The request's field names, by the turn's field names."""


class ChatTurn(NamedTuple):
    """A turn to submit, and the unlisted session that the turn starts."""

    begins: SessionBeginning
    content: str | list[ContentBlock]
    request: TurnRequest


def chat_turn(body: ChatBody, agent: SessionBeginning, caller: Principal) -> ChatTurn:
    """Raises ``ValidationFailed`` for messages that don't form a conversation, and for unsupported settings."""
    body = body.model_copy(update={"messages": _with_question(body.messages)})
    said = [(place, message) for place, message in enumerate(body.messages) if not isinstance(message, Instruction)]
    asked = max((place for place, message in said if isinstance(message, UserMessage)), default=None)
    if asked is None:
        raise refuse("messages", "The conversation has no user message. Add one.", "missing_user_message")
    _check_calls([(place, message) for place, message in said if not isinstance(message, UserMessage)])
    question = body.messages[asked]
    assert isinstance(question, UserMessage)
    before = [_history(place, message) for place, message in said if place < asked]
    after = [_history(place, message) for place, message in said if place > asked]
    try:
        execute = ExecuteBody.model_validate({"content": _content(question), "options": _options(body)})
        if execute.options is not None:
            check_options(execute.options, caller)
    except ValidationError as problem:
        details = validation_details(problem.errors())
        raise renamed(ValidationFailed(f"Invalid body: {details[0].message}.", details=details), NAMES) from None
    except ValidationFailed as problem:
        raise renamed(problem, NAMES) from None
    begins = agent.model_copy(update={"messages": before, "listed": False, "expires_after": _EXPIRES_SECONDS})
    request = TurnRequest(
        stream=bool(body.stream),
        options=execute.options,
        client_calls=ClientCalls(answered=after),
        whole_history=True,
    )
    return ChatTurn(begins, execute.content, request)


def _with_question(messages: Sequence[ChatMessage]) -> list[ChatMessage]:
    """Turns the last instruction into a user message if there are no user messages, as in OpenAI's API."""
    instructions = [(place, message) for place, message in enumerate(messages) if isinstance(message, Instruction)]
    if not instructions or any(isinstance(message, UserMessage) for message in messages):
        return list(messages)
    place, last = instructions[-1]
    return [*messages[:place], UserMessage(role="user", content=last.content), *messages[place + 1 :]]


def _options(body: ChatBody) -> dict[str, Any]:
    instructions = [_text(message.content) for message in body.messages if isinstance(message, Instruction)]
    if body.max_tokens is not None and body.max_completion_tokens is not None:
        raise refuse(
            "max_tokens", "Send either max_tokens or max_completion_tokens, not both.", "invalid_request_error"
        )
    choice = body.tool_choice
    options = {
        "instructions": "\n\n".join(text for text in instructions if text.strip()) or None,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "max_tokens": body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens,
        "stop": [body.stop] if isinstance(body.stop, str) else body.stop or None,
        "tool_choice": {"name": choice.function.name} if isinstance(choice, NamedFunction) else choice,
        "parallel_tool_calls": body.parallel_tool_calls,
        "client_tools": _tools(body),
        "output_schema": _schema(body),
        "metadata": body.metadata or None,
    }
    return {name: value for name, value in options.items() if value is not None}


def _tools(body: ChatBody) -> list[dict[str, Any]] | None:
    if not body.tools:
        return None
    return [
        {
            "name": tool.function.name,
            "description": tool.function.description or "",
            "parameters": tool.function.parameters or {"type": "object", "properties": {}},
        }
        for tool in body.tools
    ]


def _schema(body: ChatBody) -> dict[str, Any] | None:
    match body.response_format:
        case SchemaText(json_schema=given):
            return given.json_schema or {}
        case TextFormat(type="json_object"):
            return {"type": "object"}
        case _:
            return None


def _content(message: UserMessage) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, TextPart)
        else {"type": "image_url", "image_url": image_given(part.image_url.url, part.image_url.detail)}
        for part in message.content
    ]


def _history(place: int, message: object) -> HistoryMessage:
    if isinstance(message, UserMessage):
        content = _content(message)
        try:
            return HistoryMessage.model_validate({"role": "user", "content": content})
        except ValidationError as problem:
            message = validation_message(problem.errors()[0])
            raise refuse(f"messages.{place}.content", message, "invalid_value") from None
    if isinstance(message, ToolMessage):
        return HistoryMessage(role="tool", content=_text(message.content), tool_call_id=message.tool_call_id)
    assert isinstance(message, AssistantMessage)
    calls = [_call(f"messages.{place}.tool_calls.{n}", call) for n, call in enumerate(message.tool_calls or ())]
    text = "" if message.content is None else _text(message.content)
    said = {"role": "assistant", "content": text or message.refusal or "", "tool_calls": calls}
    return HistoryMessage.model_validate(said)


def _call(place: str, call: Call) -> dict[str, Any]:
    if (arguments := arguments_in(call.function.arguments)) is None:
        raise refuse(f"{place}.function.arguments", "A call's arguments must be a JSON object.", "invalid_value")
    return {"id": call.id, "name": call.function.name, "arguments": arguments}


def _text(content: str | Sequence[object]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.text if isinstance(part, TextPart) else getattr(part, "refusal", "") for part in content)


def _check_calls(said: Sequence[tuple[int, object]]) -> None:
    """Raises ``ValidationFailed`` for a call without a later result, or a result without an earlier call."""
    unanswered: dict[str, int] = {}
    for place, message in said:
        if isinstance(message, ToolMessage):
            if unanswered.pop(message.tool_call_id, None) is None:
                reason = "No earlier call has this ID, or the call already has a result."
                raise refuse(f"messages.{place}.tool_call_id", reason, "invalid_value")
        elif isinstance(message, AssistantMessage):
            unanswered.update({call.id: place for call in message.tool_calls or ()})
    if unanswered:
        call_id, place = next(iter(unanswered.items()))
        reason = f"The call {call_id!r} has no result. Add a message with role tool and this ID."
        raise refuse(f"messages.{place}.tool_calls", reason, "invalid_value")
