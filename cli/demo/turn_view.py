"""Shows one turn while it runs: text, tool calls, and figures at its end."""

import json
import time
from collections.abc import Iterable
from typing import Any

from aes_client import AesError, StreamedEvent, models

from cli.api import explained
from cli.demo.screen import Screen
from cli.demo.typewriter import Typewriter
from cli.terminal import place_in
from deploy.local.errors import StackError

_LONGEST_OUTPUT = 300
_LONGEST_PASSAGE = 90
_MOST_SOURCES = 4


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
        self._reply: models.ExecuteReply | None = None

    def show(self, event: StreamedEvent) -> None:
        """Shows an event of the turn. Raises StackError for `turn.failed`."""
        self._events.append(event.type)
        match event.data:
            case models.OutputTextDelta(step=step, text=text):
                self._take_text(step, text)
            case models.ToolCallStarted() as call:
                self._begin_call(call)
            case models.ToolCallCompleted() as call:
                self._end_call(call, f"→ {_shortened(call.output)}")
            case models.ToolCallFailed() as call:
                self._end_call(call, f"✗ {_shortened(call.reason)}")
            case models.TurnRestarted(resumed_from_step=step):
                self._restart(step)
        if event.is_last:
            self._end(event)

    def finish(self, question: str) -> dict[str, Any]:
        """Returns what came of the turn."""
        assert self._reply is not None
        response = self._reply.response
        return {
            "question": question,
            "turn_id": self._reply.turn_id,
            "content": response.content,
            "tool_calls": response.tool_calls,
            "citations": response.citations,
            "artifacts": response.artifacts,
            "usage": self._reply.usage,
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

    def _begin_call(self, call: models.ToolCallStarted) -> None:
        self._end_text()
        self._open_calls.add(call.call_id)
        self._screen.said("tool", f"{call.name} {_shortened(json.dumps(call.arguments, ensure_ascii=False))}", "cyan")

    def _end_call(self, call: models.ToolCallCompleted | models.ToolCallFailed, outcome: str) -> None:
        self._end_text()
        self._screen.said("", outcome)
        self._open_calls.discard(call.call_id)
        if not self._open_calls:
            self._reach(call.step + 1)

    def _restart(self, step: int) -> None:
        self._end_text()
        self._early.clear()
        self._step = step + 1
        self._screen.said("", "(another worker took over; it goes on after the last recorded step)")

    def _end(self, event: StreamedEvent) -> None:
        try:
            self._reply = event.reply()
        except AesError as error:
            self._end_text()
            failure = explained(error)
            raise StackError(f"The turn has failed: {failure.problem}", failure.remedy) from error
        self._complete(self._reply)

    def _complete(self, reply: models.ExecuteReply) -> None:
        self._reach(self._step)
        self._end_text()
        content = reply.response.content
        # Deltas may be lost; the terminal event's text is authoritative.
        if self._written != content:
            self._screen.said("agent", content, "green")
        for source in _sources(reply.response.citations):
            self._screen.said("", source, "dim")
        for warning in reply.warnings:
            self._screen.said("", f"warning: {warning}", "yellow")
        self._screen.said("", " · ".join(self._figures(reply.usage)), "dim")

    def _figures(self, usage: models.Usage) -> list[str]:
        figures = [f"{(time.monotonic() - self._began) * 1000:,.0f} ms"]
        if self._first_text is not None:
            figures.append(f"first words after {(self._first_text - self._began) * 1000:,.0f} ms")
        if usage.output_tokens:
            figures.append(f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens")
        return figures


def _sources(citations: Iterable[models.Citation]) -> list[str]:
    """Lists the cited documents, each page or row once."""
    places: dict[str, str] = {}
    for citation in citations:
        if citation.file_name:
            place = f"{citation.file_name}{place_in(citation)}"
            passage = _shortened(" ".join(citation.passage.split()), _LONGEST_PASSAGE)
            places.setdefault(place, f"from {place}: “{passage}”")
    return list(places.values())[:_MOST_SOURCES]


def _shortened(text: str, longest: int = _LONGEST_OUTPUT) -> str:
    return text if len(text) <= longest else text[:longest] + "…"
