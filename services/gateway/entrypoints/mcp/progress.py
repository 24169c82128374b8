"""Describes a turn's progress in words."""

from typing import Final

from libs.contracts.messages import Event
from libs.contracts.resources import turns

_PAUSE_SECONDS: Final = 0.5
"""The minimum time between two messages that show the reply's text."""
_LONGEST_TEXT: Final = 2_000
_LONGEST_REASON: Final = 500


class ProgressWriter:
    """Converts events into progress messages. While the agent writes, a message shows the end of the text so far."""

    def __init__(self) -> None:
        self._text = ""
        self._last = ""
        self._next = 0.0

    def take(self, event: Event, now: float) -> str | None:
        """Returns the message for an event, or None. ``now``: the monotonic time in seconds."""
        match event:
            case turns.OutputTextDelta():
                self._text += event.text
                return self._so_far(now) if now >= self._next else None
            case turns.OutputTextDone():
                return self._so_far(now)
            case turns.TurnQueued():
                return "Queued behind earlier messages."
            case turns.TurnStarted():
                return "The agent is working."
            case turns.TurnRestarted():
                return self._begin_again("Another worker has resumed the turn.")
            case turns.ToolCallStarted():
                return self._begin_again(f"Calling {event.name}.")
            case turns.ToolCallCompleted():
                return f"{event.name} has finished."
            case turns.ToolCallFailed():
                return f"{event.name} failed: {event.reason[:_LONGEST_REASON]}"
            case turns.OutputInvalid():
                return self._begin_again("The response doesn't match the agent's schema. Asking the model again.")
            case turns.TurnActionRequired():
                return f"Waiting for approval or a result for the call to {event.action.tool_call.name}."
        return None

    def _so_far(self, now: float) -> str | None:
        if self._text == self._last:
            return None
        self._last, self._next = self._text, now + _PAUSE_SECONDS
        return self._text if len(self._text) <= _LONGEST_TEXT else "…" + self._text[-_LONGEST_TEXT:]

    def _begin_again(self, message: str) -> str:
        """Discards the text so far, and returns the message."""
        self._text = self._last = ""
        return message
