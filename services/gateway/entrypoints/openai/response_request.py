"""The body of ``POST /openai/v1/responses``. Unsupported fields are rejected."""

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from libs.contracts.errors import ValidationFailed, validation_details
from libs.contracts.models import JsonObject, StrictModel
from libs.contracts.resources.agents import MOST_CLIENT_TOOLS, ClientTool
from libs.contracts.resources.turns import NamedTool, ToolChoice, TurnOptions
from services.gateway.entrypoints.openai.conventions import refuse, renamed
from services.gateway.entrypoints.openai.input_items import InputItem, MessageInput

REQUEST_KEY: Final = "openai:request"
"""The key in a turn's metadata for the request's fields that aren't turn options."""
WITHOUT_EFFECT: Final[Mapping[str, tuple[Any, ...]]] = {
    "include": ([],),
    "reasoning": ({},),
    "service_tier": ("auto", "default"),
    "stream_options": ({}, {"include_obfuscation": False}),
    "top_logprobs": (0,),
    "truncation": ("disabled",),
}
"""The accepted values of unsupported fields, which request the default behavior. Null is accepted, too."""
UNSUPPORTED: Final = frozenset(
    {
        "access_programs", "background_options", "context_management", "image", "max_tool_calls", "moderation",
        "prompt", "prompt_cache_options", "prompt_cache_retention",
    }
)  # fmt: skip
"""Unsupported fields, which are rejected unless null."""
NAMES: Final = {
    "content": "input",
    "messages": "input",
    "options.max_tokens": "max_output_tokens",
    "options.client_tools": "tools",
    "options.output_schema": "text.format.schema",
    "options": "",
}
"""The request's field names, by the turn's field names."""


class FunctionTool(StrictModel):
    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
    description: Annotated[str, Field(max_length=10_000)] | None = None
    parameters: JsonObject | None = None
    strict: bool | None = None


class NamedFunction(StrictModel):
    type: Literal["function"]
    name: Annotated[str, Field(min_length=1, max_length=64)]


class TextFormat(StrictModel):
    type: Literal["text", "json_object"]


class SchemaFormat(StrictModel):
    type: Literal["json_schema"]
    name: Annotated[str, Field(min_length=1, max_length=64)]
    schema_: Annotated[JsonObject, Field(alias="schema")]
    description: Annotated[str, Field(max_length=2000)] | None = None
    strict: bool | None = None


class TextSettings(StrictModel):
    format: Annotated[TextFormat | SchemaFormat, Field(discriminator="type")] | None = None
    verbosity: Literal["medium"] | None = None


class ConversationReference(StrictModel):
    id: Annotated[str, Field(min_length=1, max_length=200)]


Name = Annotated[str, Field(min_length=1, max_length=300)]
MetadataKey = Annotated[str, Field(min_length=1, max_length=64)]
Metadata = Annotated[dict[MetadataKey, Annotated[str, Field(max_length=512)]], Field(max_length=16)]


class KeptRequest(BaseModel):
    """The fields of a request that aren't turn options. ``instructions``: the length of that field in the request."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    model: str = ""
    background: bool = False
    store: bool = True
    previous_response_id: str | None = None
    conversation: str | None = None
    instructions: int | None = None
    format: dict[str, str | bool] = {"type": "text"}
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    @classmethod
    def read(cls, kept: str) -> "KeptRequest":
        """Parses stored fields. Returns the defaults for text that this protocol didn't store."""
        try:
            return cls.model_validate_json(kept)
        except ValidationError:
            return cls()


class CreateResponse(StrictModel):
    model: Name | None = None
    input: str | list[InputItem] = []
    instructions: Annotated[str, Field(max_length=100_000)] | None = None
    previous_response_id: Name | None = None
    conversation: Name | ConversationReference | None = None
    background: bool | None = None
    store: bool | None = None
    stream: bool | None = None
    tools: Annotated[list[FunctionTool], Field(max_length=MOST_CLIENT_TOOLS)] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedFunction | None = None
    parallel_tool_calls: bool | None = None
    text: TextSettings | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    max_output_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    metadata: Metadata | None = None
    user: Annotated[str, Field(max_length=512)] | None = None
    safety_identifier: Annotated[str, Field(max_length=128)] | None = None
    prompt_cache_key: Annotated[str, Field(max_length=512)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _without_what_changes_nothing(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {name: value for name, value in given.items() if not _changes_nothing(name, value)}

    @property
    def items(self) -> list[Any]:
        return [MessageInput(role="user", content=self.input)] if isinstance(self.input, str) else self.input

    @property
    def conversation_id(self) -> str | None:
        given = self.conversation
        return given.id if isinstance(given, ConversationReference) else given

    def check(self) -> None:
        """Raises ``ValidationFailed`` if fields contradict each other."""
        if self.conversation is not None and self.previous_response_id is not None:
            raise refuse("conversation", "Send either `conversation` or `previous_response_id`, not both.", "conflict")
        if self.store is False and self.background:
            raise refuse("background", "A background response must be stored. Set `store` to true.", "conflict")
        if self.store is False and self.conversation is not None:
            raise refuse("store", "Responses in a conversation are always stored. Omit `store`.", "conflict")
        if REQUEST_KEY in (self.metadata or {}):
            raise refuse(f"metadata.{REQUEST_KEY}", "This key is reserved. Use another key.", "reserved")

    def options(self, model: str, added_instructions: str) -> TurnOptions:
        """Returns the turn's options. ``added_instructions``: the system and developer messages in the input."""
        instructions = "\n\n".join(each for each in (self.instructions, added_instructions) if each)
        kept = KeptRequest(
            model=model,
            background=bool(self.background),
            store=self.store is not False,
            previous_response_id=self.previous_response_id,
            conversation=self.conversation_id,
            instructions=len(self.instructions or "") if added_instructions else None,
            format=self._format(),
            user=self.user,
            safety_identifier=self.safety_identifier,
            prompt_cache_key=self.prompt_cache_key,
        )
        try:
            return TurnOptions(
                instructions=instructions or None,
                temperature=self.temperature,
                top_p=self.top_p,
                max_tokens=self.max_output_tokens,
                tool_choice=self._tool_choice(),
                parallel_tool_calls=self.parallel_tool_calls,
                client_tools=self._client_tools(),
                output_schema=self._schema(),
                metadata={**(self.metadata or {}), REQUEST_KEY: kept.model_dump_json(exclude_defaults=True)},
            )
        except ValidationError as problem:
            raise _unusable(problem) from None

    def _client_tools(self) -> list[ClientTool] | None:
        return [
            ClientTool(name=tool.name, description=tool.description or "", parameters=tool.parameters or {})
            for tool in self.tools or ()
        ] or None

    def _tool_choice(self) -> ToolChoice | None:
        if isinstance(self.tool_choice, NamedFunction):
            return NamedTool(name=self.tool_choice.name)
        return self.tool_choice

    def _schema(self) -> JsonObject | None:
        match self.text.format if self.text is not None else None:
            case SchemaFormat() as given:
                return given.schema_
            case TextFormat(type="json_object"):
                return {"type": "object"}
            case _:
                return None

    def _format(self) -> JsonObject:
        given = self.text.format if self.text is not None else None
        return {"type": "text"} if given is None else given.model_dump(exclude={"schema_"}, exclude_none=True)


def _changes_nothing(name: str, value: Any) -> bool:
    if value is None:
        return name in WITHOUT_EFFECT or name in UNSUPPORTED
    return any(value == allowed and type(value) is type(allowed) for allowed in WITHOUT_EFFECT.get(name, ()))


def _unusable(problem: ValidationError) -> ValidationFailed:
    details = [each.model_copy(update={"loc": ["options", *each.loc]}) for each in validation_details(problem.errors())]
    return renamed(ValidationFailed(f"Invalid body: {details[0].message}.", details=details), NAMES)


def response_head(options: TurnOptions | None, created_at: int) -> JsonObject:
    """Returns the fields of a response that depend only on the request."""
    options = options or TurnOptions()
    metadata, choice = dict(options.metadata or {}), options.tool_choice
    request = KeptRequest.read(metadata.pop(REQUEST_KEY, "{}"))
    text_format: JsonObject = dict(request.format)
    if text_format.get("type") == "json_schema":
        text_format["schema"] = options.output_schema
    return {
        "object": "response",
        "created_at": created_at,
        "model": request.model,
        "background": request.background,
        "store": request.store,
        "previous_response_id": request.previous_response_id,
        "conversation": None if request.conversation is None else {"id": request.conversation},
        "instructions": (options.instructions or "")[: request.instructions] or None,
        "max_output_tokens": options.max_tokens,
        "metadata": metadata,
        "parallel_tool_calls": options.parallel_tool_calls is not False,
        "temperature": options.temperature,
        "top_p": options.top_p,
        "text": {"format": text_format},
        "tool_choice": {"type": "function", "name": choice.name} if isinstance(choice, NamedTool) else choice or "auto",
        "tools": [{"type": "function", "strict": True, **tool.model_dump()} for tool in options.client_tools or ()],
        "truncation": "disabled",
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "user": request.user,
        "safety_identifier": request.safety_identifier,
        "prompt_cache_key": request.prompt_cache_key,
        "incomplete_details": None,
    }
