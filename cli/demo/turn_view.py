"""Shows one turn while it runs: text, tool calls, and figures at its end."""

import json
import time
from collections.abc import Iterable
from typing import Any

from cli.demo.api import remedy_of
from cli.demo.screen import Screen
from cli.demo.sse import ServerEvent
from cli.demo.typewriter import Typewriter
from deploy.local.errors import StackError

_LONGEST_OUTPUT = 300
_LONGEST_PASSAGE = 90
_MOST_SOURCES = 4
_STATUSES = {"model_error": 502, "service_unavailable": 503, "timeout_error": 504, "rate_limit_error": 429}


class TurnView:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.monotonic()
        self._first_text: float | None = None
        self._writer: Typewriter | None = None
        self._written = ""
        self._step = 1
        self._early: list[str] = []
        self._open_calls: set[str] = set()
        self._events: list[str] = []
        self._reply: dict[str, Any] | None = None

    def show(self, event: ServerEvent) -> None:
        """Shows an event of the turn. Raises StackError for `turn.failed`."""
        self._events.append(event.name)
        match event.name:
            case "turn.output_text.delta":
                self._take_text(event.data["step"], event.data["text"])
            case "turn.tool_call.started":
                self._begin_call(event.data)
            case "turn.tool_call.completed":
                self._end_call(event.data, f"→ {_shortened(event.data['output'])}")
            case "turn.tool_call.failed":
                self._end_call(event.data, f"✗ {_shortened(event.data['reason'])}")
            case "turn.restarted":
                self._restart(event.data["resumed_from_step"])
            case "turn.completed":
                self._complete(event.data)
            case "turn.failed" | "turn.cancelled" | "error":
                self._end_text()
                raise _failure(event)

    def finish(self, question: str) -> dict[str, Any]:
        """Returns the turn's reply. Raises StackError when the stream ended before the turn did."""
        if self._reply is None:
            self._end_text()
            raise StackError(
                "The stream ended before the turn did. The turn itself goes on.", "See: ./aes logs gateway"
            )
        return {
            "question": question,
            "turn_id": self._reply["turn_id"],
            "content": self._reply["response"]["content"],
            "tool_calls": self._reply["response"]["tool_calls"],
            "citations": self._reply["response"].get("citations", []),
            "artifacts": self._reply["response"].get("artifacts", []),
            "usage": self._reply["usage"],
            "events": self._events,
        }

    def _take_text(self, step: int, text: str) -> None:
        # Deltas have a topic of their own and may overtake the tool results that they rest on.
        if step > self._step:
            self._early.append(text)
        else:
            self._show_text(text)

    def _show_text(self, text: str) -> None:
        if self._writer is None:
            self._writer = self._screen.typing("agent", "green").__enter__()
            self._written = ""
        if self._first_text is None:
            self._first_text = time.monotonic()
        self._written += text
        self._writer.feed(text)

    def _end_text(self) -> None:
        if self._writer is not None:
            self._writer.__exit__(None, None, None)
            self._writer = None

    def _reach(self, step: int) -> None:
        """Allows the text of a step to be shown."""
        self._step = step
        for text in self._early:
            self._show_text(text)
        self._early.clear()

    def _begin_call(self, call: dict[str, Any]) -> None:
        self._end_text()
        self._open_calls.add(call["call_id"])
        arguments = _shortened(json.dumps(call["arguments"], ensure_ascii=False))
        self._screen.said("tool", f"{call['name']} {arguments}", "cyan")

    def _end_call(self, call: dict[str, Any], outcome: str) -> None:
        self._end_text()
        self._screen.said("", outcome)
        self._open_calls.discard(call["call_id"])
        if not self._open_calls:
            self._reach(call["step"] + 1)

    def _restart(self, step: int) -> None:
        self._end_text()
        self._early.clear()
        self._step = step + 1
        self._screen.said("", "(another worker took over; it goes on after the last recorded step)")

    def _complete(self, reply: dict[str, Any]) -> None:
        self._reply = reply
        self._reach(self._step)
        self._end_text()
        content = reply["response"]["content"]
        # Deltas may be lost; the terminal event's text is authoritative.
        if self._written != content:
            self._screen.said("agent", content, "green")
        for source in _sources(reply["response"].get("citations", ())):
            self._screen.said("", source, "dim")
        for warning in reply.get("warnings", ()):
            self._screen.said("", f"warning: {warning}", "yellow")
        self._screen.said("", " · ".join(self._figures(reply["usage"])), "dim")

    def _figures(self, usage: dict[str, int]) -> list[str]:
        figures = [f"{(time.monotonic() - self._began) * 1000:,.0f} ms"]
        if self._first_text is not None:
            figures.append(f"first words after {(self._first_text - self._began) * 1000:,.0f} ms")
        if usage["output_tokens"]:
            figures.append(f"{usage['input_tokens']:,} + {usage['output_tokens']:,} tokens")
        return figures


def _failure(event: ServerEvent) -> StackError:
    error = event.data.get("error") or {"type": event.name, "message": event.data.get("reason", "")}
    return StackError(
        f"The turn failed with {error['type']}: {error['message']}", remedy_of(_STATUSES.get(error["type"], 500))
    )


def _sources(citations: Iterable[dict[str, Any]]) -> list[str]:
    """Lists the cited documents, each page or row once."""
    places: dict[str, str] = {}
    for citation in citations:
        if citation.get("file_name"):
            numbers = [f"{kind} {citation[kind]}" for kind in ("page", "row") if citation.get(kind) is not None]
            place = ", ".join([citation["file_name"], *numbers])
            places.setdefault(
                place, f"from {place}: “{_shortened(' '.join(citation['passage'].split()), _LONGEST_PASSAGE)}”"
            )
    return list(places.values())[:_MOST_SOURCES]


def _shortened(text: str, longest: int = _LONGEST_OUTPUT) -> str:
    return text if len(text) <= longest else text[:longest] + "…"
