"""How much of a conversation a model is given."""

from __future__ import annotations

from collections.abc import Sequence

from services.runtime.domain.conversation import (
    AssistantMessage,
    Message,
    TextPart,
    ToolMessage,
    UserMessage,
)

_FILE_SIZE = 4_000


def newest_history(history: Sequence[Message], longest: int) -> tuple[Message, ...]:
    """The newest whole messages of `history` within `longest` characters, beginning with a user's message.

    An image or a file counts as 4,000 characters. The question itself is not part of the history and is never cut.
    """
    kept = len(history)
    size = 0
    while kept > 0:
        size += _size(history[kept - 1])
        if size > longest:
            break
        kept -= 1
    while kept < len(history) and not isinstance(history[kept], UserMessage):
        kept += 1
    return tuple(history[kept:])


def _size(message: Message) -> int:
    match message:
        case UserMessage(parts):
            return sum(len(part.text) if isinstance(part, TextPart) else _FILE_SIZE for part in parts)
        case AssistantMessage(text, tool_calls):
            return len(text) + sum(len(str(call.arguments)) for call in tool_calls)
        case ToolMessage(result):
            return len(result.output)
