"""Prints the output of commands: results on stdout, everything else on stderr."""

import json
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Annotated, Any

import typer

from deploy.local.errors import StackError

Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]


def print_json(document: Any) -> None:
    """Prints a value as one line of JSON on stdout. Responses are printed as the service sent them."""
    print(json.dumps(document, default=_as_sent), flush=True)


def _as_sent(value: Any) -> Any:
    if isinstance(value, datetime):
        from libs.contracts.timestamps import format_time

        return format_time(value)
    return value.model_dump(by_alias=True, exclude_unset=True)


def show(as_json: bool, document: Any, text: str) -> None:
    """Prints a command's result: JSON for scripts, or text."""
    if as_json:
        print_json(document)
    else:
        note(text)


def show_table(as_json: bool, document: Any, headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Prints a command's result: JSON for scripts, or a table."""
    if as_json:
        print_json(document)
    else:
        # A list's document has one field, such as `api_keys`.
        print_table(headings, rows, next(iter(document)).replace("_", " ").replace("api", "API"))


def note(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


def print_table(headings: Sequence[str], rows: Iterable[Sequence[Any]], what: str = "rows") -> None:
    """Prints a table on stdout, or a block of lines per row if the table is wider than the terminal or COLUMNS.

    For an empty table, prints on stderr that no ``what`` were found.
    """
    from rich.console import Console
    from rich.table import Column, Table
    from rich.text import Text

    console = Console(highlight=False)
    cells = [["" if value is None else str(value) for value in row] for row in rows]
    if not cells:
        note(f"No {what} found.")
        return
    table = Table(*(Column(heading, no_wrap=True) for heading in headings), box=None, padding=(0, 2, 0, 0))
    table.header_style, table.show_header = "dim", any(headings)
    for row in cells:
        table.add_row(*map(Text, row))
    needed = console.measure(table, options=console.options.update_width(_UNLIMITED)).maximum
    limit = console.width if console.is_terminal or "COLUMNS" in os.environ else _UNLIMITED
    if needed - 2 <= limit or not any(headings):
        Console(highlight=False, width=max(needed, console.width)).print(table)
        return
    widest = max(map(len, headings))
    for number, row in enumerate(cells):
        lines = [f"{heading:<{widest}}  {cell}" for heading, cell in zip(headings, row, strict=True) if cell]
        console.print(Text("\n".join([*([""] if number else []), *lines])), soft_wrap=True)


def local_time(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone():%Y-%m-%d %H:%M}"


def emphasise(text: str, code: int) -> str:
    """Returns the text, styled if stderr is a terminal."""
    return f"\x1b[{code}m{text}\x1b[0m" if sys.stderr.isatty() else text


_UNLIMITED = 10_000
BOLD, RED, GREEN = 1, 31, 32


@contextmanager
def failures_explained(as_json: bool) -> Iterator[None]:
    """Prints an error and exits with 1, or with 130 after Ctrl-C."""
    try:
        yield
    except (StackError, OSError) as error:
        failure = error if isinstance(error, StackError) else StackError(str(error))
        if as_json:
            print_json({"error": {"message": failure.problem, "remedy": failure.remedy}})
        _say("Error:", RED, failure.problem)
        if failure.remedy:
            _say("What to do:", BOLD, failure.remedy)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        note("\nInterrupted.")
        raise typer.Exit(130) from None


def _say(label: str, style: int, text: str) -> None:
    """Prints a label and text, wrapped on a terminal and unwrapped elsewhere."""
    lines = f"{label} {text}".split("\n")
    if sys.stderr.isatty():
        lines = [_folded(line, shutil.get_terminal_size().columns) for line in lines]
    note("\n".join(lines).replace(label, emphasise(label, style), 1))


def _folded(line: str, width: int) -> str:
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.fill(line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def shortened(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[:longest] + "…"


def call_of(action: Any) -> str:
    """Formats an action's tool call: its name, and its arguments as JSON."""
    return f"{action.tool_call.name} {json.dumps(action.tool_call.arguments, ensure_ascii=False)}"


def location_in(passage: Any) -> str:
    """Formats a passage's page or row, such as ``, page 2``. Returns an empty string if neither is known."""
    return "".join(f", {kind} {number}" for kind in ("page", "row") if (number := getattr(passage, kind)) is not None)
