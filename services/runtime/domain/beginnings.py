"""New sessions, with their agent and an optional imported conversation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from libs.contracts.errors import ErrorDetail, ValidationFailed
from libs.contracts.identifiers import is_id
from libs.contracts.identity import Identity
from libs.contracts.resources.messages import FileBlock, HistoryMessage, ImageBlock, ImageUrlBlock, SaidFile, TextBlock
from libs.contracts.resources.sessions import SessionBeginning, SessionCreated
from services.runtime.domain.agents import AgentSpec
from services.runtime.domain.conversation import (
    ArtifactPart,
    AssistantMessage,
    ImagePart,
    JsonObject,
    Message,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)

Block = TextBlock | ImageUrlBlock | FileBlock | ImageBlock
NO_IMAGE_URL: Final = "an image must have an http or https URL"


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to create. ``expires_after`` is in seconds, or None if the session doesn't expire."""

    id: str
    company_id: str
    owner_id: str
    agent_id: str | None
    config: JsonObject
    config_hash: str
    agent: AgentSpec
    messages: tuple[Message, ...] = ()
    listed: bool = True
    expires_after: int | None = None
    metadata: dict[str, str] | None = None

    @property
    def next_position(self) -> int:
        """The position of the session's first turn."""
        return count_positions(self.messages)

    def created(self) -> SessionCreated:
        return SessionCreated(
            session_id=self.id,
            config_hash=self.config_hash,
            agent_id=self.agent_id,
            owner_id=self.owner_id,
            listed=self.listed,
        )


def count_positions(messages: Sequence[Message]) -> int:
    """Returns the number of turn positions that the messages occupy, two messages per position."""
    return (len(messages) + 1) // 2


def valid_new_id(session_id: str) -> str:
    """Returns the ID. Raises ValidationFailed if it isn't valid for a new session."""
    if not is_id(session_id):
        raise ValidationFailed("Invalid session ID. Use a UUID.")
    return session_id


def new_session(beginning: SessionBeginning, session_id: str, caller: Identity) -> NewSession:
    """Creates the session that a command describes. Raises ValidationFailed."""
    try:
        agent = AgentSpec.from_config(beginning.agent_config)
    except (KeyError, TypeError, AttributeError) as problem:
        raise ValidationFailed(
            "The agent configuration is missing fields or has fields of the wrong type."
            " Send it through the gateway, which adds the defaults."
        ) from problem
    return NewSession(
        id=valid_new_id(session_id),
        company_id=caller.company_id,
        owner_id=caller.user_id,
        agent_id=beginning.agent_id,
        config=beginning.agent_config,
        config_hash=beginning.config_hash,
        agent=agent,
        messages=history_of(beginning.messages),
        listed=beginning.listed,
        expires_after=beginning.expires_after,
        metadata=beginning.metadata or None,
    )


def history_of(messages: Sequence[HistoryMessage], asked: Sequence[Message] = ()) -> tuple[Message, ...]:
    """Converts API messages to conversation messages. Raises ValidationFailed.

    A tool result must belong to a call in ``messages`` or in ``asked``, the earlier messages.
    """
    open_calls = {call.id: call for message in asked for call in getattr(message, "tool_calls", ())}
    history: list[Message] = []
    for index, message in enumerate(messages):
        if message.role == "user":
            history.append(UserMessage(_parts(message, index)))
        elif message.role == "assistant":
            calls = tuple(ToolCall(call.id, call.name, call.arguments) for call in message.tool_calls)
            open_calls.update((call.id, call) for call in calls)
            history.append(AssistantMessage(_text(message, index), calls))
        else:
            call = open_calls.pop(message.tool_call_id or "", None)
            if call is None:
                reason = f"no earlier message contains the call {message.tool_call_id!r}, or it already has a result"
                raise _invalid([index, "tool_call_id"], "unknown_call", reason)
            history.append(ToolMessage(ToolResult(call.id, call.name, _text(message, index))))
    return tuple(history)


def _parts(message: HistoryMessage, index: int) -> tuple[Part, ...]:
    if isinstance(message.content, str):
        return (TextPart(message.content),)
    parts: list[Part] = []
    for number, block in enumerate(message.content):
        part = part_of_block(block)
        if part is None:
            raise _invalid([index, "content", number, "image_url"], "not_supported", NO_IMAGE_URL)
        parts.append(part)
    return tuple(parts)


def part_of_block(block: Block) -> Part | None:
    """Converts a content block. Returns None for an image without an http or https URL."""
    match block:
        case TextBlock():
            return TextPart(block.text)
        case SaidFile():
            artifact_id, kind, strategy = block.source.artifact_id, block.content_type, block.processing_strategy
            return ArtifactPart(artifact_id, block.name, kind, strategy, detail=block.detail)
        case FileBlock():
            return ArtifactPart(block.source.artifact_id, "", "", "", detail=block.detail)
        case ImageBlock() if not block.url.lower().startswith("data:"):
            return ArtifactPart("", "", "", "vision", block.url, block.detail)
        case ImageUrlBlock() if block.image_url.url.lower().startswith(("https://", "http://")):
            return ImagePart(block.image_url.url, block.image_url.detail)
    return None


def _text(message: HistoryMessage, index: int) -> str:
    if isinstance(message.content, str):
        return message.content
    if not all(isinstance(block, TextBlock) for block in message.content):
        raise _invalid([index, "content"], "not_supported", "only user messages can contain images")
    return "\n".join(block.text for block in message.content if isinstance(block, TextBlock))


def _invalid(path: list[str | int], kind: str, reason: str) -> ValidationFailed:
    detail = ErrorDetail(loc=["messages", *path], type=kind, message=reason)
    return ValidationFailed(f"Invalid messages: {reason}.", details=[detail])
