"""Summarizes the tables of a file: column types, sample rows and row counts."""

import datetime
import json
import math
from pathlib import Path
from typing import Any, Final

from libs.confined import answer_job
from libs.documents import DocumentUnreadable, Table, cell_text, column_name, is_empty, read_tables, text_type

KEPT_ROWS: Final = 100
_KEPT_COLUMNS: Final = 1000
_KEPT_CHARACTERS: Final = 500
_TYPED_ROWS: Final = 20_000
_MOST_SHEETS: Final = 256
# Some JSON parsers reject longer integers or lose digits.
_TOO_LONG: Final = 2**63
_WIDER: Final = {
    frozenset({"integer", "number"}): "number",
    frozenset({"date", "datetime"}): "datetime",
}


def summarize_file(job: dict[str, Any]) -> dict[str, Any]:
    """Returns ``sheets``: the tables' summaries, or None for JSON that isn't an array of objects.

    Raises ``DocumentUnreadable``.
    """
    tables = read_tables(Path(job["path"]), job["content_type"])
    if tables is None:
        return {"sheets": None}
    budget = SampleBudget()
    sheets: list[dict[str, Any]] = []
    for table in tables:
        if len(sheets) == _MOST_SHEETS:
            raise DocumentUnreadable(f"The workbook has more than {_MOST_SHEETS} sheets.")
        sheets.append(summarize(table, budget))
    return {"sheets": sheets}


class SampleBudget:
    """The number of characters of sample rows that can still be kept, across all tables of a file."""

    def __init__(self, characters: int = 2_000_000) -> None:
        self.left = characters


def summarize(table: Table, budget: SampleBudget) -> dict[str, Any]:
    headers = table.headers[:_KEPT_COLUMNS]
    types = ["empty"] * len(headers)
    sample: list[list[Any]] = []
    count = 0
    for count, row in enumerate(table.rows, 1):
        if count > _TYPED_ROWS:
            continue
        for index, cell in enumerate(row[:_KEPT_COLUMNS]):
            if index == len(types):
                types.append("empty")
                headers.append(column_name(index))
            if not is_empty(cell):
                types[index] = _wider(types[index], _type(cell) if table.typed else text_type(cell))
        if len(sample) < KEPT_ROWS and budget.left > 0:
            kept = [_kept(cell) for cell in row[:_KEPT_COLUMNS]]
            budget.left -= sum(len(str(cell)) + 8 for cell in kept)
            sample.append(kept)
    rows = [row + [None] * (len(headers) - len(row)) for row in sample]
    if not table.typed:
        rows = [[_converted(cell, kind) for cell, kind in zip(row, types, strict=True)] for row in rows]
    return {"name": table.name, "headers": headers, "types": types, "rows": rows, "row_count": count}


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


def _kept(cell: Any) -> Any:
    """Converts a cell to a JSON value and truncates long text."""
    if is_empty(cell):
        return None
    if isinstance(cell, bool):
        return cell
    if isinstance(cell, int):
        return cell if abs(cell) < _TOO_LONG else str(cell)[:_KEPT_CHARACTERS]
    if isinstance(cell, float):
        if not math.isfinite(cell):
            return str(cell)
        return int(cell) if _type(cell) == "integer" else cell
    if isinstance(cell, datetime.datetime):
        return cell.isoformat()
    if isinstance(cell, datetime.date | datetime.time | datetime.timedelta):
        return cell_text(cell)
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


if __name__ == "__main__":
    answer_job(summarize_file)
