"""Converts the cells of tables to text, detects heading rows and names columns."""

import datetime
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

_LONGEST_NAME: Final = 500
_INTEGER: Final = re.compile(r"[+-]?(0|[1-9]\d{0,17})", re.ASCII)
_NUMBER: Final = re.compile(r"[+-]?(0|[1-9]\d*)?(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?", re.ASCII)


def cell_text(cell: Any) -> str:
    """Formats a cell's value as a spreadsheet displays it.

    Examples: `2.5`, `true`, `2026-05-04`, `2026-05-04 10:30:00`, `10:30:00`, `36:00:00`.
    """
    if isinstance(cell, bool):
        return str(cell).lower()
    if isinstance(cell, float):
        text = repr(cell).removesuffix(".0")
        return format(Decimal(text), "f") if "e" in text else text
    if isinstance(cell, datetime.timedelta):
        return _duration(cell)
    return str(cell)


def _duration(time: datetime.timedelta) -> str:
    sign, time = ("-", -time) if time < datetime.timedelta() else ("", time)
    minutes, seconds = divmod(round(time.total_seconds()), 60)
    return f"{sign}{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


def is_empty(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def is_heading(row: Sequence[Any]) -> bool:
    """Returns whether the row contains only column names. At most half of its cells can be empty.

    A name is text other than a number, date or time. Consecutive years next to a name also count as names.
    """
    filled = [cell for cell in row if not is_empty(cell)]
    others = [cell for cell in filled if not _is_name(cell)]
    names = len(filled) - len(others)
    return names > 0 and (not others or _are_years(others)) and len(row) - len(filled) <= len(row) // 2


def _is_name(cell: Any) -> bool:
    # Text with digits but no letters is an amount, a date or a time.
    return isinstance(cell, str) and (any(map(str.isalpha, cell)) or not any(map(str.isdigit, cell)))


def _are_years(cells: Sequence[Any]) -> bool:
    """Returns whether the cells are at least two consecutive years, in ascending or descending order."""
    try:
        years = [int(cell) if isinstance(cell, str) or cell == int(cell) else 0 for cell in cells]
    except (TypeError, ValueError, OverflowError):
        return False
    steps = {later - earlier for earlier, later in pairwise(years)}
    return all(1800 <= year <= 2200 for year in years) and steps in ({1}, {-1})


def headings(row: Sequence[Any]) -> list[str]:
    """Returns unique column names from a heading row. A column without a name gets its letter."""
    return distinct_names(
        column_name(index) if is_empty(cell) else " ".join(cell_text(cell).split())[:_LONGEST_NAME]
        for index, cell in enumerate(row)
    )


def distinct_names(names: Iterable[str], same: Callable[[str], str] = str) -> list[str]:
    """Numbers repeated names: ``a``, ``a (2)``. Names are equal if ``same`` maps them to the same value."""
    distinct: list[str] = []
    taken: set[str] = set()
    for base in names:
        name, number = base, 1
        while same(name) in taken:
            number += 1
            name = f"{base} ({number})"
        taken.add(same(name))
        distinct.append(name)
    return distinct


def column_name(index: int) -> str:
    """Returns the letters of a spreadsheet column, numbered from 0: A, B, …, Z, AA."""
    name = ""
    index += 1
    while index:
        index, letter = divmod(index - 1, 26)
        name = chr(65 + letter) + name
    return name


def text_type(text: str) -> str:
    """Returns the type of a cell's text. ``007`` counts as text, since a number would lose the zeros."""
    text = text.strip()
    if _INTEGER.fullmatch(text):
        return "integer"
    # As numbers, longer integers would lose digits.
    if text[-1:].isdigit() and not text.lstrip("+-").isdigit() and _NUMBER.fullmatch(text):
        return "number"
    if text.lower() in ("true", "false"):
        return "boolean"
    if _DATE.fullmatch(text):
        return "date"
    return "datetime" if _MOMENT.fullmatch(text) else "text"
