"""Renders tables and JSON as text: a line for each row, with the column's name before each value."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from libs.confined import PartDone, no_parts
from libs.documents import CsvDialect, cell_text, is_heading, read_json, workbook_sheets
from services.ingestion.domain.documents import ParsedDocument, Segment
from services.ingestion.domain.parsing import Unparsable

MOST_CHARACTERS: Final = 20_000_000
MOST_ROWS: Final = 250_000
_ROWS_OF_A_PART: Final = 5_000


class TableText:
    """Collects the text of a table's rows. Raises Unparsable as soon as there are too many rows or characters."""

    def __init__(self, part_done: PartDone = no_parts) -> None:
        self._part_done = part_done
        self._lines: list[str] = []
        self._segments: list[Segment] = []
        self._length = 0

    def title(self, text: str) -> None:
        self._add(text)

    def row(self, text: str, number: int, page: int | None = None) -> None:
        start = self._length
        self._add(text)
        self._segments.append(Segment(start, start + len(text), page, number))
        if len(self._segments) > MOST_ROWS:
            message = f"The table has more than {MOST_ROWS:,} rows. Split the table into smaller files."
            raise Unparsable("too_large", message)
        if len(self._segments) % _ROWS_OF_A_PART == 0:
            self._part_done()

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._length += len(line) + 1
        check_length(self._length)

    def sheet(self, rows: Iterable[Sequence[Any]], page: int | None = None) -> None:
        """Adds a sheet. If the first row looks like a heading, its cells name the columns."""
        heading: Sequence[str] | None = None
        first = True
        for number, row in enumerate(rows, 1):
            cells = [cell_text(cell) for cell in row]
            if not any(cell.strip() for cell in cells):
                continue
            if first and is_heading(row):
                heading, first = [_flat(cell) for cell in cells], False
                held = number
                continue
            first = False
            self.row(_line(cells, heading), number, page)
        if heading is not None and not any(s.page == page for s in self._segments):
            self.row(_line(heading, None), held, page)

    def document(self) -> ParsedDocument:
        return ParsedDocument("\n".join(self._lines), tuple(self._segments))


def check_length(characters: int) -> None:
    if characters > MOST_CHARACTERS:
        message = f"The text has more than {MOST_CHARACTERS:,} characters. Split the file into smaller files."
        raise Unparsable("too_large", message)


def from_csv(text: str, part_done: PartDone = no_parts) -> ParsedDocument:
    table = TableText(part_done)
    table.sheet(CsvDialect.of(text).rows(io.StringIO(text, newline="")))
    return table.document()


def from_workbook(path: Path, part_done: PartDone = no_parts) -> ParsedDocument:
    """Renders an XLSX or XLS file. If there are several sheets, each becomes a page."""
    table = TableText(part_done)
    sheets = list(enumerate(workbook_sheets(path), 1))
    filled = [(page, sheet) for page, sheet in sheets if sheet.height]
    for page, sheet in filled:
        if len(filled) > 1:
            table.title(sheet.name)
        table.sheet(sheet.iter_rows(), page if len(sheets) > 1 else None)
        part_done()
    return table.document()


def _line(cells: Sequence[str], heading: Sequence[str] | None) -> str:
    parts = []
    for column, cell in enumerate(cells):
        value = _flat(cell)
        if not value:
            continue
        name = heading[column] if heading and column < len(heading) else ""
        parts.append(f"{name}: {value}" if name else value)
    return ", ".join(parts)


def _flat(cell: str) -> str:
    return " ".join(cell.split())


def from_json(text: str) -> ParsedDocument:
    value = read_json(text)
    if isinstance(value, list) and value and all(isinstance(item, Mapping) for item in value):
        table = TableText()
        for number, item in enumerate(value, 1):
            table.row(", ".join(f"{key}: {_cell(cell)}" for key, cell in item.items() if cell is not None), number)
        return table.document()
    return ParsedDocument("" if value in (None, {}, []) else _written(value, text))


def _written(value: Any, text: str, indent: int | None = 2) -> str:
    try:
        separators = None if indent else (",", ":")
        return json.dumps(value, ensure_ascii=False, indent=indent, separators=separators)
    except RecursionError:
        # Too deeply nested to render.
        return text


def _cell(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else _written(value, str(value), None)
