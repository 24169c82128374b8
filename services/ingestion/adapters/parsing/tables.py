"""Renders tables as text with one line and one segment per row, each value with the name of its column."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence

from services.ingestion.adapters.parsing.limits import Limits
from services.ingestion.domain.documents import ParsedDocument, Segment
from services.ingestion.domain.parsing import Unparsable

csv.field_size_limit(2**31 - 1)


class TableText:
    """Collects rows. Raises Unparsable as soon as there are more rows or more text than the limits allow."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lines: list[str] = []
        self._segments: list[Segment] = []
        self._length = 0

    def title(self, text: str) -> None:
        self._add(text)

    def row(self, text: str, number: int, page: int | None = None) -> None:
        start = self._length
        self._add(text)
        self._segments.append(Segment(start, start + len(text), page, number))
        if len(self._segments) > self._limits.rows:
            raise too_many_rows(self._limits)

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._length += len(line) + 1
        if self._length > self._limits.text_characters:
            raise too_much_text(self._limits)

    def sheet(self, rows: Iterable[Sequence[str]], page: int | None = None) -> None:
        """The first row names the columns when it can be a heading; numbers are those a spreadsheet shows."""
        heading: Sequence[str] | None = None
        first = True
        for number, cells in enumerate(rows, 1):
            if not any(cell.strip() for cell in cells):
                continue
            if first and _is_heading(cells):
                heading, first = [_flat(cell) for cell in cells], False
                held = number
                continue
            first = False
            self.row(_line(cells, heading), number, page)
        if heading is not None and not any(s.page == page for s in self._segments):
            self.row(_line(heading, None), held, page)

    def document(self) -> ParsedDocument:
        return ParsedDocument("\n".join(self._lines), tuple(self._segments), {"rows": len(self._segments)})


def too_many_rows(limits: Limits) -> Unparsable:
    return Unparsable("too_large", f"The table has more than {limits.rows:,} rows; split it into smaller files.")


def too_much_text(limits: Limits) -> Unparsable:
    return Unparsable(
        "too_large", f"The file holds more than {limits.text_characters:,} characters of text; split it into parts."
    )


def from_csv(text: str, limits: Limits) -> ParsedDocument:
    table = TableText(limits)
    table.sheet(_csv_rows(text))
    return table.document()


def _csv_rows(text: str) -> Iterator[list[str]]:
    try:
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=_delimiter(text[:16_384]))
    except csv.Error as error:
        raise Unparsable("damaged", f"The file is not valid CSV: {error}.") from None


def _delimiter(sample: str) -> str:
    """The separator that occurs in most lines, and equally often in them."""
    lines = [line for line in sample.splitlines()[:20] if line.strip()]

    def steadiness(mark: str) -> tuple[int, int]:
        counts = [line.count(mark) for line in lines]
        usual = max(counts, key=counts.count, default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max(",;\t|", key=steadiness)


def _is_heading(cells: Sequence[str]) -> bool:
    names = [cell.strip() for cell in cells if cell.strip()]
    return len(names) == len(set(names)) and len(cells) - len(names) <= len(cells) // 2 and not any(map(_number, names))


def _number(text: str) -> bool:
    return text.replace(".", "").replace(",", "").replace("-", "").strip().isdigit()


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
