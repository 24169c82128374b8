"""Messages of a session, made up of content blocks."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, model_validator

from libs.contracts.models import JsonObject, StrictModel, WireModel, is_none
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp


class TextBlock(StrictModel):
    """A block of text."""

    type: Literal["text"]
    text: Annotated[str, Field(min_length=1)]


ImageDetail = Literal["auto", "low", "high", "original"]
"""The resolution at which the model sees an image. Providers without this setting ignore it."""


class ImageUrl(StrictModel):
    """The URL of an image."""

    url: Annotated[str, Field(min_length=1, max_length=4000)]
    detail: ImageDetail | None = Field(default=None, exclude_if=is_none)


class ImageUrlBlock(StrictModel):
    """An image on the web. ``data:`` URLs are rejected."""

    type: Literal["image_url"]
    image_url: ImageUrl


class ArtifactSource(StrictModel):
    """A reference to an artifact by ID."""

    artifact_id: Annotated[str, Field(min_length=1, max_length=200)]


class FileBlock(StrictModel):
    """A file: an artifact of the session, specified by ID."""

    type: Literal["file"]
    source: ArtifactSource
    detail: ImageDetail | None = Field(default=None, exclude_if=is_none)


class ImageBlock(StrictModel):
    """An image: an artifact of the session, specified by the URL that the upload returned."""

    type: Literal["image"]
    url: Annotated[str, Field(min_length=1, max_length=4000)]
    detail: ImageDetail | None = Field(default=None, exclude_if=is_none)


ContentBlock = Annotated[TextBlock | ImageUrlBlock | FileBlock | ImageBlock, Field(discriminator="type")]


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("must not be blank")
    return text


def _no_blank_blocks(blocks: list[ContentBlock]) -> list[ContentBlock]:
    for block in blocks:
        if isinstance(block, TextBlock):
            _not_blank(block.text)
    return blocks


MessageText = Annotated[str, Field(min_length=1, json_schema_extra={"pattern": r"\S"}), AfterValidator(_not_blank)]
_MOST_BLOCKS: Final = Field(min_length=1, max_length=100)
MessageBlocks = Annotated[list[ContentBlock], _MOST_BLOCKS, AfterValidator(_no_blank_blocks)]


class RequestedToolCall(WireModel):
    """A tool call that the model has requested and that hasn't run yet."""

    id: str
    name: str
    arguments: dict[str, Any]


class SaidFile(FileBlock):
    """Internal: a file in a message of the history, with the properties of the file's artifact."""

    name: str
    content_type: str
    processing_strategy: str


class HistoryMessage(WireModel):
    """A message that a caller adds to a session's history.

    An assistant message can request ``tool_calls``. A tool message contains the result of the call ``tool_call_id``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"user message": {"role": "user", "content": "When does the ferry leave?"}}

    role: Literal["user", "assistant", "tool"]
    content: str | list[Annotated[TextBlock | ImageUrlBlock | SaidFile, Field(discriminator="type")]]
    tool_calls: list[RequestedToolCall] = []
    tool_call_id: str | None = None


class GivenToolCall(StrictModel):
    """A tool call in an imported message. ``id`` must be unique in the conversation."""

    id: str = Field(min_length=1, max_length=200)
    name: str = Field(min_length=1, max_length=200)
    arguments: JsonObject


class GivenMessage(StrictModel):
    """A message in an imported conversation.

    An assistant message can request ``tool_calls``. A tool message contains the result of the call ``tool_call_id``.
    """

    role: Literal["user", "assistant", "tool"]
    content: str | Annotated[list[Annotated[TextBlock | ImageUrlBlock, Field(discriminator="type")]], _MOST_BLOCKS]
    tool_calls: Annotated[list[GivenToolCall], Field(max_length=128)] = []
    tool_call_id: str | None = Field(default=None, min_length=1, max_length=200)

    @model_validator(mode="after")
    def _fits_its_role(self) -> "GivenMessage":
        if self.tool_calls and self.role != "assistant":
            raise ValueError("only assistant messages can have tool_calls")
        if (self.tool_call_id is None) is (self.role == "tool"):
            raise ValueError("tool messages need a tool_call_id, and other messages can't have one")
        return self


class GivenHistory(StrictModel):
    """An imported conversation that becomes the session's initial history, oldest message first."""

    messages: list[GivenMessage] = Field(default=[], max_length=2_000)


class Message(WireModel):
    """A message in the session's history. ``content`` is the combined text of ``content_blocks``.

    In imported histories, the ``content`` of a message with the role ``tool`` is a tool call's output.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "user message": {
            "id": "01980f52-3b50-7e47-9f50-4d5e6f7a8b07",
            "role": "user",
            "content": "When does the ferry leave?",
            "timestamp": "2026-05-04T08:16:15.239240Z",
            "content_blocks": [{"type": "text", "text": "When does the ferry leave?"}],
        },
        "tool result": {
            "id": "01980f52-3b51-7e47-9f50-4d5e6f7a8b08",
            "role": "tool",
            "content": "at nine",
            "timestamp": "2026-05-04T08:16:15.239240Z",
            "content_blocks": [
                {
                    "type": "tool_result",
                    "call_id": "call_1",
                    "name": "timetable",
                    "output": "at nine",
                    "status": "completed",
                }
            ],
        },
    }

    id: str
    role: Literal["user", "assistant", "tool"]
    content: str
    timestamp: Timestamp
    content_blocks: list[dict[str, Any]] = []
    turn_id: str | None = None


class MessagePage(WireModel, ListPage):
    messages: list[Message]
