"""The input items of responses: messages, calls, answers to calls, and conversations that clients store."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from libs.contracts.resources.actions import ResolveActionBody
from libs.contracts.resources.messages import ContentBlock, HistoryMessage, ImageDetail, ImageUrlBlock, TextBlock
from services.gateway.entrypoints.openai.conventions import refuse
from services.gateway.entrypoints.openai.message_parts import EchoedPart, ImageAddress, arguments_in, image_given

Text = Annotated[str, Field(min_length=1)]


class TextPart(EchoedPart):
    """Text from the user or the agent. ``parsed``: the structured value, as parsed by the client's library."""

    type: Literal["input_text", "output_text", "text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None
    parsed: Any = None


class ImagePart(EchoedPart):
    """An image, given by a web address or a ``data:`` URL."""

    type: Literal["input_image"]
    image_url: ImageAddress
    detail: ImageDetail | None = None


Part = Annotated[TextPart | ImagePart, Field(discriminator="type")]


class MessageInput(EchoedPart):
    type: Literal["message"] = "message"
    role: Literal["user", "assistant", "system", "developer"]
    content: str | list[Part]
    id: str | None = None
    status: str | None = None
    phase: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "\n\n".join(part.text for part in self.content if isinstance(part, TextPart))


class FunctionCallOutput(EchoedPart):
    """The result of a call that the client has executed."""

    type: Literal["function_call_output"]
    call_id: Text
    output: str | list[TextPart]
    id: str | None = None
    status: str | None = None

    @property
    def text(self) -> str:
        return self.output if isinstance(self.output, str) else "\n\n".join(part.text for part in self.output)


class FunctionCall(EchoedPart):
    """A call for the client to execute. ``parsed_arguments``: the ``arguments``, as parsed by the client's library."""

    type: Literal["function_call"]
    call_id: Text
    name: Text
    arguments: str
    parsed_arguments: Any = None
    id: str | None = None
    status: str | None = None

    @property
    def call(self) -> dict[str, Any]:
        """The call, as a history contains it. Raises ``ValidationFailed`` if the arguments aren't a JSON object."""
        if (arguments := arguments_in(self.arguments)) is None:
            raise refuse(
                "input", f"The arguments of call {self.call_id[:200]!r} must be a JSON object.", "invalid_value"
            )
        return {"id": self.call_id, "name": self.name, "arguments": arguments}


class AgentCall(EchoedPart):
    """A call that the agent executed for an earlier response."""

    type: Literal["mcp_call"]
    id: Text
    server_label: Text
    name: Text
    arguments: str
    output: str | None = None
    error: Any = None
    status: str | None = None
    approval_request_id: str | None = None


class ApprovalResponse(EchoedPart):
    type: Literal["mcp_approval_response"]
    approval_request_id: Text
    approve: bool
    reason: Annotated[str, Field(max_length=10_000)] | None = None
    id: str | None = None


def _type(value: Any) -> str:
    """Returns an item's type, which messages may omit."""
    given = value.get("type") if isinstance(value, dict) else getattr(value, "type", None)
    return given if isinstance(given, str) else "message"


InputItem = Annotated[
    Annotated[MessageInput, Tag("message")]
    | Annotated[FunctionCallOutput, Tag("function_call_output")]
    | Annotated[FunctionCall, Tag("function_call")]
    | Annotated[AgentCall, Tag("mcp_call")]
    | Annotated[ApprovalResponse, Tag("mcp_approval_response")],
    Discriminator(_type),
]
Answer = FunctionCallOutput | ApprovalResponse


def question_of(messages: Sequence[MessageInput]) -> str | list[ContentBlock]:
    """Joins messages into the content of one user message. Raises ``ValidationFailed`` for empty messages."""
    text = messages[0].content if len(messages) == 1 else None
    if isinstance(text, str) and text.strip():
        return text
    blocks: list[ContentBlock] = []
    for message in messages:
        parts = message.content
        for part in [TextPart(type="input_text", text=parts)] if isinstance(parts, str) else parts:
            if isinstance(part, ImagePart):
                blocks.append(ImageUrlBlock(type="image_url", image_url=image_given(part.image_url, part.detail)))
            elif part.text.strip():
                blocks.append(TextBlock(type="text", text=part.text))
    if not blocks:
        raise refuse("input", "The input has no text.", "empty")
    return blocks


def resolution_of(answer: Answer) -> ResolveActionBody:
    if isinstance(answer, FunctionCallOutput):
        return ResolveActionBody(output=answer.text)
    decision: Literal["approve", "deny"] = "approve" if answer.approve else "deny"
    return ResolveActionBody(decision=decision, reason=None if answer.approve else answer.reason)


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
                    message = f"No call found for function call {item.call_id[:200]}."
                    raise refuse("input", message, "invalid_value")
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
