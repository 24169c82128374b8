"""Prints the demo's headings, facts and marks; styled on a terminal, plain elsewhere."""

import sys
from textwrap import wrap

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from cli.demo.typewriter import Typewriter

_WIDEST = 100
_LABEL = 8


class Screen:
    """Prints to stdout; `quiet` prints nothing, for `--json`."""

    def __init__(self, *, quiet: bool = False, console: Console | None = None) -> None:
        self.console = console or Console(file=sys.stdout, highlight=False, quiet=quiet)
        self.width = min(self.console.width, _WIDEST)

    def title(self, text: str, subtitle: str) -> None:
        self.console.print()
        self.console.print(Text(text, style="bold"))
        self.console.print(Text(subtitle, style="dim"), width=self.width)

    def heading(self, number: int, text: str, call: str = "") -> None:
        """Prints a step's heading, with its API call on the right when there is room."""
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
        """Prints columns on one line; the last one is cut off at the line's end."""
        line = Text("  ").join(columns)
        line.truncate(self.width - 3, overflow="ellipsis")
        self._indented(line)

    def quote(self, text: str) -> None:
        """Prints a file's text; long lines are folded under their beginning."""
        for line in text.rstrip().splitlines():
            margin = " " * (len(line) - len(line.lstrip()))
            pieces = wrap(line, self.width - 5, subsequent_indent=margin, drop_whitespace=True) or [""]
            for piece in pieces:
                self._indented(Text.assemble(("│ ", "dim"), piece))

    def good(self, text: str) -> None:
        self._marked("✓", "green", Text(text))

    def bad(self, place: str, text: str) -> None:
        self._marked("✗", "red", Text.assemble((place, "bold"), "  " if place else "", text))

    def hint(self, text: str) -> None:
        self._marked("→", "yellow", Text(text, style="yellow"), indent=5)

    def said(self, who: str, text: str, style: str = "") -> None:
        """Prints one complete message of a conversation."""
        with self.typing(who, style, text_style="dim" if style == "dim" else "") as writer:
            writer.feed(text)

    def typing(self, who: str, style: str = "", text_style: str = "") -> Typewriter:
        """Prints a message piece by piece while it is generated."""
        label = Text(f"   {who:<{_LABEL}}", style="bold" if style == "" else style)
        return Typewriter(
            lambda piece: self._write(piece, text_style),
            lambda: self.console.print(label, end=""),
            3 + _LABEL,
            self.width,
        )

    def command(self, text: str) -> None:
        """Prints a text to copy: neither folded nor indented."""
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
