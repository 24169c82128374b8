"""Prints the demo's headings, results and streamed conversations."""

import json
import sys
import time
from collections.abc import Callable, Iterable
from textwrap import wrap
from typing import Any, Self

from aes_client import AesError, StreamedEvent, models
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.api import explained
from cli.terminal import location_in, shortened
from deploy.local.errors import StackError

_WIDEST = 100
_LABEL = 8
_LONGEST_OUTPUT = 300
_LONGEST_PASSAGE = 90
_MOST_SOURCES = 4


class Typewriter:
    """Prints wrapped text. `begin` prints the first line's prefix, which is `indent` columns wide."""

    def __init__(self, write: Callable[[str], None], begin: Callable[[], None], indent: int, width: int) -> None:
        self._write = write
        self._begin = begin
        self._indent = indent
        self._width = width
        self._column = 0
        self._breaks = 0
        self._space = ""
        self._word = ""

    def __enter__(self) -> Self:
        self._begin()
        self._column = self._indent
        return self

    def __exit__(self, *_: object) -> None:
        self._end_word()
        self._write("\n")

    def feed(self, piece: str) -> None:
        for character in piece:
            if character == "\n":
                self._end_word()
                self._space = ""
                self._breaks += 1
            elif character.isspace():
                self._end_word()
                self._space = " "
            elif character.isprintable():
                # Control characters could change the terminal's state.
                self._word += character

    def _end_word(self) -> None:
        while self._word:
            # Line breaks are held back until more text follows, to avoid trailing ones.
            room = self._width - self._column - len(self._space)
            if self._breaks:
                self._new_line(min(self._breaks, 2))
            elif cell_len(self._word) > room and self._column > self._indent:
                self._new_line(1)
            head = self._fitting(self._word, self._width - self._column - len(self._space))
            self._write(self._space + head)
            self._column += len(self._space) + cell_len(head)
            self._space = ""
            self._word = self._word[len(head) :]

    def _new_line(self, breaks: int) -> None:
        self._write("\n" * breaks + " " * self._indent)
        self._column = self._indent
        self._space = ""
        self._breaks = 0

    @staticmethod
    def _fitting(word: str, room: int) -> str:
        head = ""
        for character in word:
            if head and cell_len(head + character) > room:
                break
            head += character
        return head


class Screen:
    """The demo's output on stdout. With `quiet`, for `--json`, nothing is printed."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stdout, highlight=False, quiet=quiet)
        self.width = min(self.console.width, _WIDEST)

    def title(self, text: str, subtitle: str) -> None:
        self.console.print()
        self.console.print(Text(text, style="bold"))
        self.console.print(Text(subtitle, style="dim"), width=self.width)

    def heading(self, number: int, text: str, call: str = "") -> None:
        """Prints a step's heading, with its API call on the right if there's room."""
        left = Text.assemble((f"{number}", "bold cyan"), "  ", (text, "bold"))
        self.console.print()
        room = self.width - left.cell_len - len(call)
        if call and room >= 2:
            left.append(" " * room)
            left.append(call, style="dim")
        self.console.print(left)
        if call and room < 2:
            self.console.print(Text(f"   {call}", style="dim"))

    def blank(self) -> None:
        self.console.print()

    def line(self, text: str, style: str = "") -> None:
        self._indented(Text(text, style=style))

    def row(self, *columns: Text) -> None:
        """Prints columns on one line, truncating the last column."""
        line = Text("  ").join(columns)
        line.truncate(self.width - 3, overflow="ellipsis")
        self._indented(line)

    def quote(self, text: str) -> None:
        """Prints a file's text. Long lines wrap and stay aligned."""
        for line in text.rstrip().splitlines():
            margin = " " * (len(line) - len(line.lstrip()))
            pieces = wrap(line, self.width - 5, subsequent_indent=margin, drop_whitespace=True) or [""]
            for piece in pieces:
                self._indented(Text.assemble(("│ ", "dim"), piece))

    def good(self, text: str) -> None:
        self._marked("✓", "green", Text(text))

    def bad(self, subject: str, text: str) -> None:
        self._marked("✗", "red", Text.assemble((subject, "bold"), "  " if subject else "", text))

    def hint(self, text: str) -> None:
        self._marked("→", "yellow", Text(text, style="yellow"), indent=5)

    def say(self, who: str, text: str, style: str = "") -> None:
        """Prints a complete message of a conversation."""
        with self.typing(who, style, text_style="dim" if style == "dim" else "") as writer:
            writer.feed(text)

    def typing(self, who: str, style: str, text_style: str = "") -> Typewriter:
        """Returns a typewriter for a message that is still being generated."""
        label = Text(f"   {who:<{_LABEL}}", style="bold" if style == "" else style)
        return Typewriter(
            lambda piece: self._write(piece, text_style),
            lambda: self.console.print(label, end=""),
            3 + _LABEL,
            self.width,
        )

    def command(self, text: str) -> None:
        """Prints text to be copied, without wrapping or indentation."""
        self.console.print(Text(text), soft_wrap=True)

    def _marked(self, mark: str, style: str, text: Text, indent: int = 3) -> None:
        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=1)
        grid.add_column(overflow="fold")
        grid.add_row(Text(mark, style=style), text)
        self._indented(grid, indent)

    def _indented(self, what: RenderableType, indent: int = 3) -> None:
        self.console.print(Padding(what, (0, 0, 0, indent), expand=False), width=self.width)

    def _write(self, text: str, style: str) -> None:
        self.console.print(Text(text, style=style), end="", soft_wrap=True)
        self.console.file.flush()


class TurnView:
    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.monotonic()
        self._first_text: float | None = None
        self._writer: Typewriter | None = None
        self._written = ""
        self._outcomes: dict[str, str | None] = {}
        self._events: list[str] = []
        self._reply: models.ExecuteReply | None = None

    def show(self, event: StreamedEvent) -> None:
        """Shows an event of the turn. Raises StackError for `turn.failed`."""
        self._events.append(event.type)
        match event.data:
            case models.OutputTextDelta(text=text):
                self._show_text(text)
            case models.ToolCallStarted() as call:
                self._begin_call(call)
            case models.ToolCallCompleted() as call:
                self._end_call(call, f"→ {shortened(call.output, _LONGEST_OUTPUT)}")
            case models.ToolCallFailed() as call:
                self._end_call(call, f"✗ {shortened(call.reason, _LONGEST_OUTPUT)}")
            case models.TurnRestarted():
                self._end_text()
                self._screen.say("", "(another worker resumed after the last recorded step)")
        if event.is_last:
            self._end(event)

    def finish(self, question: str) -> dict[str, Any]:
        """Returns the turn's question and reply for `--json`."""
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

    def _begin_call(self, call: models.ToolCallStarted) -> None:
        self._end_text()
        self._outcomes[call.call_id] = None
        arguments = json.dumps(call.arguments, ensure_ascii=False)
        self._screen.say("tool", f"{call.name} {shortened(arguments, _LONGEST_OUTPUT)}", "cyan")

    def _end_call(self, call: models.ToolCallCompleted | models.ToolCallFailed, outcome: str) -> None:
        self._end_text()
        self._outcomes[call.call_id] = outcome
        # A step's calls run concurrently. Results are shown in the order of the calls.
        while self._outcomes and (first := next(iter(self._outcomes.values()))) is not None:
            self._screen.say("", first)
            del self._outcomes[next(iter(self._outcomes))]

    def _end(self, event: StreamedEvent) -> None:
        try:
            self._reply = event.reply()
        except AesError as error:
            self._end_text()
            failure = explained(error)
            raise StackError(f"The turn failed: {failure.problem}", failure.remedy) from error
        self._complete(self._reply)

    def _complete(self, reply: models.ExecuteReply) -> None:
        self._end_text()
        content = reply.response.content
        # The final event's text is authoritative.
        if self._written != content:
            self._screen.say("agent", content, "green")
        for source in _sources(reply.response.citations):
            self._screen.say("", source, "dim")
        for warning in reply.warnings:
            self._screen.say("", f"warning: {warning}", "yellow")
        self._screen.say("", " · ".join(self._figures(reply.usage)), "dim")

    def _figures(self, usage: models.Usage) -> list[str]:
        figures = [f"{(time.monotonic() - self._began) * 1000:,.0f} ms"]
        if self._first_text is not None:
            figures.append(f"first token after {(self._first_text - self._began) * 1000:,.0f} ms")
        if usage.output_tokens:
            figures.append(f"{usage.input_tokens:,} + {usage.output_tokens:,} tokens")
        return figures


def _sources(citations: Iterable[models.Citation]) -> list[str]:
    """Returns a line for each cited page or row, without duplicates."""
    sources: dict[str, str] = {}
    for citation in citations:
        if citation.file_name:
            source = f"{citation.file_name}{location_in(citation)}"
            passage = shortened(" ".join(citation.passage.split()), _LONGEST_PASSAGE)
            sources.setdefault(source, f"from {source}: “{passage}”")
    return list(sources.values())[:_MOST_SOURCES]
