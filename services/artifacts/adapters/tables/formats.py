"""Reads tables out of the formats that hold some."""

from __future__ import annotations

import codecs
import csv
import json
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from services.artifacts.adapters.tables.columns import Budget, Columns, collect, headings

_UNPACKED_BYTES: Final = 1024**3
_LONGEST_CELL: Final = 10_000_000
_MOST_SHEETS: Final = 256
_PIECE: Final = 1024**2
Sheets = list[dict[str, Any]]


class Refused(Exception):
    """The file cannot be read; the message is for its owner."""


def read_tables(path: Path, content_type: str) -> Sheets | None:
    """None when the file holds no tables. Raises ``Refused``."""
    if content_type == "text/csv":
        return _csv(path)
    if content_type == "application/json":
        return _json(path)
    return _workbook(path)


def _csv(path: Path) -> Sheets:
    csv.field_size_limit(_LONGEST_CELL)
    encoding = _encoding(path)
    with path.open(encoding=encoding, newline="") as file:
        delimiter = _delimiter(file.read(65_536))
        file.seek(0)
        try:
            return [collect("Sheet1", csv.reader(file, delimiter=delimiter), Budget(), typed=False)]
        except csv.Error as problem:
            raise Refused(f"The file is not valid CSV: {problem}.") from None
        except UnicodeError:
            raise Refused("The file is not valid CSV: it has bytes that are no text.") from None


def _encoding(path: Path) -> str:
    """UTF-8 and UTF-16 are known by their bytes; whatever else there is becomes Western European."""
    with path.open("rb") as file:
        head = file.read(4)
        if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while piece := file.read(_PIECE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return "latin-1"
    return "utf-8-sig"


def _delimiter(sample: str) -> str:
    """The separator that occurs equally often in most lines."""
    lines = [line for line in sample.splitlines()[:20] if line.strip()]

    def steadiness(mark: str) -> tuple[int, int]:
        counts = [line.count(mark) for line in lines]
        usual = max(counts, key=counts.count, default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max(",;\t|", key=steadiness)


def _json(path: Path) -> Sheets | None:
    try:
        found = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as problem:
        raise Refused(f"The file is not valid JSON: {problem}.") from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        return None
    names = list(dict.fromkeys(str(name) for each in found for name in each))
    columns = Columns("Sheet1", headings(names), Budget(), typed=True)
    for each in found:
        columns.add([each.get(name) for name in names])
    return [columns.sheet()]


def _workbook(path: Path) -> Sheets:
    import python_calamine

    _check_unpacked(path)
    budget = Budget()
    try:
        book = python_calamine.CalamineWorkbook.from_path(str(path))
        if len(book.sheet_names) > _MOST_SHEETS:
            raise Refused(f"The workbook has more than {_MOST_SHEETS} sheets.")
        return [collect(name, _rows(book, name), budget, typed=True) for name in book.sheet_names]
    except python_calamine.PasswordError:
        raise Refused("The workbook is protected by a password.") from None
    except (python_calamine.CalamineError, OSError, ValueError) as problem:
        raise Refused(f"The workbook is damaged: {problem}.") from None


def _rows(book: Any, name: str) -> Iterator[Sequence[Any]]:
    sheet = book.get_sheet_by_name(name)
    yield from sheet.iter_rows()


def _check_unpacked(path: Path) -> None:
    if not zipfile.is_zipfile(path):
        return
    try:
        with zipfile.ZipFile(path) as package:
            unpacked = sum(each.file_size for each in package.infolist())
    except zipfile.BadZipFile as problem:
        raise Refused(f"The workbook is damaged: {problem}.") from None
    if unpacked > _UNPACKED_BYTES:
        raise Refused("The workbook is too large when unpacked.")
