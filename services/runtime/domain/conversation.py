"""Conversations with a model."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

JsonObject = dict[str, Any]
ToolStatus = Literal["completed", "failed", "unknown"]
# The limit per model call. The sum of a million counts still fits into 64 bits.
_MOST_TOKENS: Final = 10**12
_FILE_SIZE: Final = 4_000


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text in a message. If the text was read from a session file, ``file`` is that file."""

    text: str
    file: "ArtifactPart | None" = None


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image. ``detail`` is the level of detail for the model, or None for the provider's default."""

    url: str
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class ArtifactPart:
    """A reference to a session file. ``url`` is the link in the message, if any."""

    artifact_id: str
    name: str
    content_type: str
    strategy: str
    url: str | None = None
    detail: str | None = None

    @property
    def is_image(self) -> bool:
        return self.strategy == "vision"


Part = TextPart | ImagePart | ArtifactPart


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that a model requested. `id` is unique within the turn.

    If `validation_error` is set, the call isn't made, and the model receives the error.
    """

    id: str
    name: str
    arguments: JsonObject
    validation_error: str | None = None
    provider_data: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Citation:
    """The source of a statement. A citation without IDs refers to text in the conversation itself."""

    passage: str
    score: float | None = None
    knowledge_base_id: str | None = None
    knowledge_base_name: str | None = None
    file_id: str | None = None
    file_name: str | None = None
    page: int | None = None
    row: int | None = None
    artifact_id: str | None = None

    @property
    def origin(self) -> str:
        """The name of the file (with the page or row) or knowledge base, for display, or "" if unknown."""
        name = self.file_name or self.knowledge_base_name
        if not name:
            return ""
        if self.page is not None:
            return f"{name}, page {self.page}"
        return f"{name}, row {self.row}" if self.row is not None else name

    def to_json(self) -> JsonObject:
        """Returns the fields that aren't None."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def numbered(chunks: Iterable[Citation]) -> str:
    """Formats chunks as text for a model, which can cite them as [1], [2] …"""
    return "\n\n".join(
        f"[{number}] {f'({passage.origin}) ' if passage.origin else ''}{passage.passage}"
        for number, passage in enumerate(chunks, 1)
    )


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """An artifact that a tool created in the session. ``size`` is in bytes."""

    artifact_id: str
    name: str
    content_type: str
    size: int = 0


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The outcome of a tool call. It's `unknown` after a crash if the tool isn't safe to repeat."""

    call_id: str
    name: str
    output: str
    status: ToolStatus = "completed"
    citations: tuple[Citation, ...] = ()
    artifacts: tuple[ArtifactRef, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def is_error(self) -> bool:
        return self.status != "completed"


@dataclass(frozen=True, slots=True)
class UserMessage:
    parts: tuple[Part, ...]

    @property
    def text(self) -> str:
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def own_text(self) -> str:
        """The user's own words, without the contents of files."""
        return "\n".join(part.text for part in self.parts if isinstance(part, TextPart) and part.file is None)

    @property
    def has_image(self) -> bool:
        return any(
            isinstance(part, ImagePart) or (isinstance(part, ArtifactPart) and part.is_image) for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    provider_data: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class ToolMessage:
    result: ToolResult


Message = UserMessage | AssistantMessage | ToolMessage


def message_size(message: Message) -> int:
    """Returns the number of characters of a message. A file or image counts as 4,000."""
    match message:
        case UserMessage(parts):
            return sum(len(part.text) if isinstance(part, TextPart) else _FILE_SIZE for part in parts)
        case AssistantMessage(text, tool_calls):
            return len(text) + sum(len(str(call.arguments)) for call in tool_calls)
        case ToolMessage(result):
            return len(result.output)


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts as reported by the provider, or zeros if it doesn't report them."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    model_calls: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            self.model_calls + other.model_calls,
        )


def token_count(value: Any) -> int:
    """Parses a provider's token count, which may be a float or a string. Returns 0 if it's implausible."""
    try:
        count = float(value or 0)
    except (TypeError, ValueError, OverflowError):
        return 0
    return int(count) if 0 < count <= _MOST_TOKENS else 0


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer to one request. The next request must include `provider_data`, such as reasoning.

    `finish_reason` is stop, tool_calls, length, content_filter or a provider-specific value.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish_reason: str = "stop"
    citations: tuple[Citation, ...] = ()
    provider_data: JsonObject | None = None
