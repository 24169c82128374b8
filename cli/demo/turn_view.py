"""Shows one turn while it runs: text as it is made, tools as they are called, the end with its figures."""

import json
import time
from typing import Any

from cli.demo.api import explained
from cli.demo.screen import Screen
from cli.demo.sse import ServerEvent
from cli.demo.typewriter import Typewriter
from deploy.local.errors import StackError

_LONGEST_OUTPUT = 300
_STATUSES = {"model_error": 502, "service_unavailable": 503, "timeout_error": 504, "rate_limit_error": 429}


class TurnView:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.monotonic()
        self._first_text: float | None = None
        self._writer: Typewriter | None = None
        self._step_text = ""
        self._events: list[str] = []
        self._reply: dict[str, Any] | None = None

    def show(self, event: ServerEvent) -> None:
        """Show an event of the turn. Raises StackError for one that says the turn has failed."""
        self._events.append(event.name)
        match event.name:
            case "turn.output_text.delta":
                self._show_text(event.data["text"])
            case "turn.tool_call.started":
                self._end_text()
                arguments = json.dumps(event.data["arguments"], ensure_ascii=False)
                self._screen.said("tool", f"{event.data['name']} {arguments}", "cyan")
            case "turn.tool_call.completed":
                self._screen.said("", f"→ {_shortened(event.data['output'])}")
            case "turn.tool_call.failed":
                self._screen.said("", f"✗ {_shortened(event.data['reason'])}")
            case "turn.restarted":
                self._end_text()
                self._screen.said("", "(taken over by another worker; it goes on after the last recorded step)")
            case "turn.completed":
                self._complete(event.data)
            case "turn.failed" | "turn.cancelled" | "error":
                self._end_text()
                error = event.data.get("error", {"type": event.name, "message": event.data.get("reason", "")})
                body = json.dumps({"error": error}).encode()
                raise explained("The turn", _STATUSES.get(error.get("type", ""), 500), body)

    def finish(self, question: str) -> dict[str, Any]:
        """What the turn came to. Raises StackError when the stream ended before the turn did."""
        if self._reply is None:
            self._end_text()
            raise StackError("The stream ended before the turn did. The turn itself goes on.", "See: aes logs gateway")
        return {
            "question": question,
            "turn_id": self._reply["turn_id"],
            "content": self._reply["response"]["content"],
            "tool_calls": self._reply["response"]["tool_calls"],
            "usage": self._reply["usage"],
            "events": self._events,
        }

    def _show_text(self, text: str) -> None:
        if self._writer is None:
            self._writer = self._screen.typing("agent", "green").__enter__()
            self._step_text = ""
        if self._first_text is None:
            self._first_text = time.monotonic()
        self._step_text += text
        self._writer.feed(text)

    def _end_text(self) -> None:
        if self._writer is not None:
            self._writer.__exit__(None, None, None)
            self._writer = None

    def _complete(self, reply: dict[str, Any]) -> None:
        self._reply = reply
        self._end_text()
        content = reply["response"]["content"]
        # Deltas may be lost; the terminal event's text counts.
        if self._step_text != content:
            self._screen.said("agent", content, "green")
        ended = time.monotonic()
        figures = [f"{(ended - self._began) * 1000:,.0f} ms"]
        if self._first_text is not None:
            figures.append(f"first words after {(self._first_text - self._began) * 1000:,.0f} ms")
        usage = reply.get("usage") or {}
        if usage.get("output_tokens"):
            figures.append(f"{usage['input_tokens']:,} + {usage['output_tokens']:,} tokens")
        figures.append(f"{len(self._events)} events")
        self._screen.line(" " * 8 + " · ".join(figures), "dim")


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_OUTPUT else text[:_LONGEST_OUTPUT] + "…"
