"""Reads the tables of CSV, JSON and Excel files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from libs.documents._csv import CsvFormat
from libs.documents._encodings import decoded
from libs.documents._encryption import check_encrypted
from libs.documents._errors import DocumentEncrypted, DocumentUnreadable
from libs.documents._headings import column_name, headings, is_empty, is_heading
from libs.documents._json import read_json

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

CSV: Final = "text/csv"
JSON: Final = "application/json"
_UNPACKED_BYTES: Final = 1024**3


@dataclass(frozen=True, slots=True)
class Table:
    """A sheet of a workbook, or the only table of a CSV or JSON file.

    ``rows`` can be iterated only once. It excludes the heading and blank rows, and a row can be shorter or longer than
    ``headers``. If ``typed`` is false, all cells are text.
    """

    name: str
    headers: list[str]
    rows: Iterator[Sequence[Any]]
    typed: bool

    @classmethod
    def of(cls, name: str, rows: Iterable[Sequence[Any]], *, typed: bool) -> Table:
        """Creates a table. The headers are the first row if it looks like a heading, or else column letters."""
        filled = (row for row in rows if not all(is_empty(cell) for cell in row))
        first = next(filled, None)
        if first is None:
            return cls(name, [], filled, typed)
        if is_heading(first):
            return cls(name, headings(first), filled, typed)
        return cls(name, [column_name(index) for index in range(len(first))], chain([first], filled), typed)


def read_tables(path: Path, content_type: str) -> Iterator[Table] | None:
    """Returns the tables of a CSV, JSON or Excel file, or None for JSON that isn't an array of objects.

    Raises ``DocumentUnreadable``, possibly not until the tables or rows are read.
    """
    if content_type == CSV:
        return iter([Table.of("Sheet1", CsvFormat.of(path).rows(path), typed=False)])
    if content_type == JSON:
        objects = _objects(path)
        return None if objects is None else iter([_table_of(objects)])
    return (Table.of(sheet.name, sheet.iter_rows(), typed=True) for sheet in workbook_sheets(path))


def workbook_sheets(path: Path) -> Iterator[CalamineSheet]:
    """Yields the sheets of an XLSX or XLS file except chart sheets. Each sheet is loaded when it's reached.

    Raises ``DocumentUnreadable``, or ``DocumentEncrypted`` if the file is encrypted.
    """
    import python_calamine

    check_encrypted(path)
    _check_unpacked(path)
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        for each in book.sheets_metadata:
            if each.typ != python_calamine.SheetTypeEnum.ChartSheet:
                yield book.get_sheet_by_name(each.name)
    except python_calamine.PasswordError:
        raise DocumentEncrypted from None
    except (python_calamine.CalamineError, OSError, ValueError) as problem:
        raise DocumentUnreadable(f"The workbook is damaged: {problem}.") from None


def _objects(path: Path) -> list[dict[str, Any]] | None:
    found = read_json(decoded(path.read_bytes()))
    is_table = isinstance(found, list) and all(isinstance(each, dict) for each in found)
    return found if is_table else None


def _table_of(objects: list[dict[str, Any]]) -> Table:
    names = list(dict.fromkeys(name for each in objects for name in each))
    return Table("Sheet1", headings(names), ([each.get(name) for name in names] for each in objects), typed=True)


def _check_unpacked(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as package:
            unpacked = sum(each.file_size for each in package.infolist())
    except zipfile.BadZipFile as problem:
        raise DocumentUnreadable(f"The workbook is damaged: {problem}.") from None
    if unpacked > _UNPACKED_BYTES:
        raise DocumentUnreadable("The workbook is too large when uncompressed.")
