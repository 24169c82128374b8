"""Parses conversations that clients store and send with each request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from libs.contracts.errors import ValidationFailed
from libs.contracts.resources.messages import ContentBlock, HistoryMessage
from services.gateway.entrypoints.openai.conventions import refuse
from services.gateway.entrypoints.openai.input_items import (
    AgentCall,
    FunctionCall,
    FunctionCallOutput,
    MessageInput,
    question_of,
)


@dataclass(frozen=True, slots=True)
class InputHistory:
    """A parsed conversation. ``question``: the last user messages in a row. ``answered``: the messages after them."""

    history: list[HistoryMessage]
    question: str | list[ContentBlock]
    answered: list[HistoryMessage]


def with_question(items: Sequence[Any]) -> list[Any]:
    """Turns the last instruction into a user message if there are no user messages, as in OpenAI's API."""
    last = max((number for number, item in enumerate(items) if is_instruction(item)), default=None)
    if last is None or any(role_of(item) == "user" for item in items):
        return list(items)
    return [*items[:last], items[last].model_copy(update={"role": "user"}), *items[last + 1 :]]


def parse_history(items: Sequence[Any]) -> InputHistory:
    """Raises ``ValidationFailed`` unless the conversation ends with a user message or with answered calls."""
    messages = [item for item in items if not is_instruction(item)]
    of_user = [number for number, item in enumerate(messages) if role_of(item) == "user"]
    if not of_user:
        raise refuse("input", "The input has no user message. Add one.", "empty")
    last = first = of_user[-1]
    while first and role_of(messages[first - 1]) == "user":
        first -= 1
    answered = messages_of(messages[last + 1 :])
    if answered and answered[-1].role == "assistant":
        raise refuse("input", "The input ends with an assistant message. Add a user message.", "invalid_value")
    return InputHistory(messages_of(messages[:first]), question_of(messages[first : last + 1]), answered)


def is_instruction(item: object) -> bool:
    return role_of(item) in ("system", "developer")


def role_of(item: object) -> str | None:
    return item.role if isinstance(item, MessageInput) else None


def messages_of(items: Sequence[Any]) -> list[HistoryMessage]:
    """Raises ``ValidationFailed`` for a call without an output, or an output without a call."""
    messages: list[dict[str, Any]] = []
    unanswered: dict[str, None] = {}
    for item in items:
        match item:
            case MessageInput(role="assistant"):
                messages.append({"role": "assistant", "content": item.text, "tool_calls": []})
            case MessageInput():
                messages.append({"role": "user", "content": question_of([item])})
            case FunctionCall():
                unanswered[item.call_id] = None
                _calls_of(messages).append(item.call)
            case FunctionCallOutput():
                if item.call_id not in unanswered:
                    raise _no_call(item.call_id)
                del unanswered[item.call_id]
                messages.append({"role": "tool", "content": item.text, "tool_call_id": item.call_id})
            case AgentCall():
                name = item.name if item.server_label == "builtin" else f"{item.server_label}.{item.name}"
                call = FunctionCall(type="function_call", call_id=item.id, name=name, arguments=item.arguments).call
                messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
                messages.append({"role": "tool", "content": item.output or "It failed.", "tool_call_id": item.id})
            case _:
                raise refuse(
                    "input",
                    "Approval responses need a previous_response_id. Set it to the ID of the response that requested"
                    " them.",
                    "invalid_value",
                )
    if unanswered:
        raise refuse("input", f"No tool output found for function call {next(iter(unanswered))}.", "invalid_value")
    return [HistoryMessage.model_validate(message) for message in messages]


def _calls_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the list for the next call. Consecutive calls belong to the same message."""
    if not messages or messages[-1]["role"] != "assistant":
        messages.append({"role": "assistant", "content": "", "tool_calls": []})
    calls: list[dict[str, Any]] = messages[-1]["tool_calls"]
    return calls


def _no_call(call_id: str) -> ValidationFailed:
    return refuse("input", f"No call found for function call {call_id[:200]}.", "invalid_value")
