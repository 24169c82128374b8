"""Collects the rows of one table: types of its columns, a sample, a count."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

KEPT_ROWS: Final = 100
KEPT_COLUMNS: Final = 1000
_KEPT_CHARACTERS: Final = 500
_TYPED_ROWS: Final = 20_000
# Readers of JSON elsewhere take no longer whole numbers, or lose digits of them.
_TOO_LONG: Final = 2**63
_INTEGER: Final = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)
_WIDER: Final = {
    frozenset({"integer", "number"}): "number",
    frozenset({"date", "datetime"}): "datetime",
}


class Budget:
    """How many characters of samples are kept of one file, in all of its tables."""

    def __init__(self, characters: int = 2_000_000) -> None:
        self.left = characters


class Columns:
    """``typed``: cells come with types of their own; otherwise they are text, and types are told from it."""

    def __init__(self, name: str, headers: Sequence[str], budget: Budget, *, typed: bool) -> None:
        self._name = name
        self._headers = list(headers[:KEPT_COLUMNS])
        self._budget = budget
        self._typed = typed
        self._types: list[str] = ["empty"] * len(self._headers)
        self._rows: list[list[Any]] = []
        self._count = 0

    def add(self, cells: Sequence[Any]) -> None:
        self._count += 1
        if self._count > _TYPED_ROWS:
            return
        for place, cell in enumerate(cells[:KEPT_COLUMNS]):
            if place == len(self._types):
                self._types.append("empty")
                self._headers.append(column_name(place))
            if not _is_empty(cell):
                self._types[place] = _wider(self._types[place], _type(cell) if self._typed else text_type(cell))
        if len(self._rows) < KEPT_ROWS and self._budget.left > 0:
            kept = [_kept(cell) for cell in cells[:KEPT_COLUMNS]]
            self._budget.left -= sum(len(str(cell)) + 8 for cell in kept)
            self._rows.append(kept)

    def sheet(self) -> dict[str, Any]:
        width = len(self._headers)
        rows = [row + [None] * (width - len(row)) for row in self._rows]
        if not self._typed:
            rows = [[_converted(cell, kind) for cell, kind in zip(row, self._types, strict=True)] for row in rows]
        return {
            "name": self._name,
            "headers": self._headers,
            "types": self._types,
            "rows": rows,
            "row_count": self._count,
        }


def collect(name: str, rows: Iterable[Sequence[Any]], budget: Budget, *, typed: bool) -> dict[str, Any]:
    """A table whose first row names the columns when it can be a heading."""
    columns: Columns | None = None
    for row in rows:
        if all(_is_empty(cell) for cell in row):
            continue
        if columns is not None:
            columns.add(row)
        elif _is_heading(row):
            columns = Columns(name, headings(row), budget, typed=typed)
        else:
            columns = Columns(name, [column_name(place) for place in range(len(row))], budget, typed=typed)
            columns.add(row)
    return (columns or Columns(name, [], budget, typed=typed)).sheet()


def headings(row: Sequence[Any]) -> list[str]:
    """Names of columns, all different: one without a name gets its letter."""
    names: list[str] = []
    taken: set[str] = set()
    for place, cell in enumerate(row):
        base = " ".join(str(cell).split())[:_KEPT_CHARACTERS] if not _is_empty(cell) else column_name(place)
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base} ({number})"
        taken.add(name)
        names.append(name)
    return names


def column_name(place: int) -> str:
    """As spreadsheets name their columns: A, B, …, Z, AA."""
    name = ""
    place += 1
    while place:
        place, letter = divmod(place - 1, 26)
        name = chr(65 + letter) + name
    return name


def text_type(text: str) -> str:
    """What a cell of text holds. ``007`` is text: as a number it would lose its zeros."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return "integer"
    # Whole numbers with more digits would lose some of them.
    if text[-1:].isdigit() and not text.lstrip("+-").isdigit() and _NUMBER.fullmatch(text):
        return "number"
    if text.lower() in ("true", "false"):
        return "boolean"
    if _DATE.fullmatch(text):
        return "date"
    return "datetime" if _MOMENT.fullmatch(text) else "text"


def _type(cell: Any) -> str:
    if isinstance(cell, bool):
        return "boolean"
    if isinstance(cell, int):
        return "integer" if abs(cell) < _TOO_LONG else "text"
    if isinstance(cell, float):
        return "integer" if cell.is_integer() and abs(cell) < 2**53 else "number"
    if isinstance(cell, datetime.datetime):
        return "datetime"
    if isinstance(cell, datetime.date):
        return "date"
    if isinstance(cell, datetime.time | datetime.timedelta):
        return "time"
    return "text" if isinstance(cell, str) else "json"


def _wider(one: str, other: str) -> str:
    if one == "empty" or one == other:
        return other
    return _WIDER.get(frozenset({one, other}), "text")


def _is_heading(row: Sequence[Any]) -> bool:
    named = [cell for cell in row if not _is_empty(cell)]
    return (
        bool(named)
        and all(isinstance(cell, str) and text_type(cell) in ("text", "boolean") for cell in named)
        and len(row) - len(named) <= len(row) // 2
    )


def _is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _kept(cell: Any) -> Any:
    """A cell as JSON has it, cut when it is long."""
    if _is_empty(cell):
        return None
    if isinstance(cell, bool):
        return cell
    if isinstance(cell, int):
        return cell if abs(cell) < _TOO_LONG else str(cell)[:_KEPT_CHARACTERS]
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return str(cell)
        return int(cell) if _type(cell) == "integer" else cell
    if isinstance(cell, datetime.datetime | datetime.date | datetime.time):
        return cell.isoformat()
    text = cell if isinstance(cell, str) else json.dumps(cell, ensure_ascii=False, default=str)
    return text[:_KEPT_CHARACTERS]


def _converted(cell: str | None, kind: str) -> Any:
    if cell is None:
        return None
    text = cell.strip()
    try:
        if kind == "integer":
            return int(text)
        if kind == "number":
            number = int(text) if text_type(text) == "integer" else float(text)
            return number if math.isfinite(number) else cell
    except ValueError:
        return cell
    return text.lower() == "true" if kind == "boolean" else cell
