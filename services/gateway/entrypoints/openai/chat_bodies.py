"""Parses the bodies of chat completions. Rejects unsupported fields, some with a hint."""

from typing import Annotated, Any, Final, Literal

from pydantic import Field

from libs.contracts.models import JsonObject, StrictModel
from libs.contracts.resources.messages import ImageDetail
from services.gateway.entrypoints.door.bodies import validated
from services.gateway.entrypoints.openai.conventions import refuse
from services.gateway.entrypoints.openai.message_parts import EchoedPart, ImageAddress
from services.gateway.entrypoints.openai.response_request import Metadata, TextFormat

_NO_EFFECT: Final[dict[str, tuple[Any, ...]]] = {
    "n": (1,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "modalities": (["text"],),
    "service_tier": ("auto", "default"),
    "store": (False,),
    **dict.fromkeys(
        (
            "audio", "function_call", "functions", "moderation", "prediction", "prompt_cache_options",
            "prompt_cache_retention", "reasoning_effort", "seed", "verbosity", "web_search_options",
        ),
        (),
    ),
}  # fmt: skip
"""Unsupported fields, with the values that are accepted because they have no effect."""
_INSTEAD: Final = {
    "functions": "use tools",
    "function_call": "use tool_choice",
    "store": "chat completions are deleted after a day; use the Responses API instead",
}


class TextPart(EchoedPart):
    type: Literal["text"]
    text: str


class Image(EchoedPart):
    url: ImageAddress
    detail: ImageDetail | None = None


class ImagePart(EchoedPart):
    type: Literal["image_url"]
    image_url: Image


class RefusalPart(EchoedPart):
    type: Literal["refusal"]
    refusal: str


Texts = Annotated[list[TextPart], Field(min_length=1)]
Parts = Annotated[list[Annotated[TextPart | ImagePart, Field(discriminator="type")]], Field(min_length=1)]


class _Message(EchoedPart):
    """The base class of messages. ``name`` has no effect."""

    name: str | None = None


class Instruction(_Message):
    role: Literal["system", "developer"]
    content: str | Texts


class UserMessage(_Message):
    role: Literal["user"]
    content: str | Parts


class CalledFunction(EchoedPart):
    """The function in a call. ``parsed_arguments``: the ``arguments``, as parsed by the client's library."""

    name: str
    arguments: str
    parsed_arguments: Any = None


class Call(EchoedPart):
    """A call in an assistant message. ``index``: the call's position in the stream that the client received."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    type: Literal["function"] = "function"
    function: CalledFunction
    index: int | None = None


class AssistantMessage(_Message):
    """A message from the model. ``parsed``: the structured value, as parsed by the client's library."""

    role: Literal["assistant"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] | None = None
    tool_calls: list[Call] | None = None
    refusal: str | None = None
    annotations: Annotated[list[JsonObject], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None
    parsed: Any = None


class ToolMessage(_Message):
    role: Literal["tool"]
    content: str | Texts
    tool_call_id: str


ChatMessage = Annotated[Instruction | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class Function(StrictModel):
    """``strict`` has no effect, because arguments are always validated against ``parameters``."""

    name: str
    description: str | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class FunctionTool(StrictModel):
    type: Literal["function"]
    function: Function


class FunctionName(StrictModel):
    name: str


class NamedFunction(StrictModel):
    type: Literal["function"]
    function: FunctionName


class NamedSchema(StrictModel):
    name: str
    description: str | None = None
    json_schema: JsonObject | None = Field(default=None, alias="schema")
    strict: bool | None = None


class SchemaText(StrictModel):
    type: Literal["json_schema"]
    json_schema: NamedSchema


class StreamOptions(StrictModel):
    """``include_obfuscation`` can only be false, because chunks are never padded."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class ChatBody(StrictModel):
    """``user``, ``safety_identifier`` and ``prompt_cache_key`` have no effect."""

    model: str
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=5000)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[FunctionTool] | None = None
    tool_choice: Literal["none", "auto", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    response_format: Annotated[TextFormat | SchemaText, Field(discriminator="type")] | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: str | list[str] | None = None
    temperature: float | None = None
    top_p: float | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    metadata: Metadata | None = None


def chat_body(values: dict[str, Any]) -> ChatBody:
    """Parses a body. Raises ``ValidationFailed`` for unknown, unsupported or invalid fields."""
    taken: dict[str, Any] = {}
    for name, value in values.items():
        if name not in _NO_EFFECT:
            taken[name] = value
        elif value is not None and value not in _NO_EFFECT[name]:
            hint = _INSTEAD.get(name)
            raise refuse(name, f"{name!r} isn't supported{f': {hint}' if hint else ''}.")
    return validated(ChatBody, taken, strict=True)
