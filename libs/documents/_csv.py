"""Reads CSV files with any encoding and any common separator."""

import csv
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from libs.documents._encodings import encoding_of
from libs.documents._errors import DocumentUnreadable

_SAMPLE_CHARACTERS: Final = 65_536
_SAMPLE_ROWS: Final = 20
# The line with which Excel declares the separator.
_DECLARATION: Final = re.compile(r"\ufeff?sep=(.)\r?\n?", re.IGNORECASE)

# This is the csv module's maximum. The file's size has already been checked.
csv.field_size_limit(2**31 - 1)


@dataclass(frozen=True, slots=True)
class CsvDialect:
    """The separator of a CSV file. If ``declared`` is true, the first line declares the separator and isn't a row."""

    delimiter: str
    declared: bool = False

    @classmethod
    def of(cls, sample: str) -> Self:
        """Selects the declared separator, or the one that splits most of the first rows into the same number of cells.

        If a comma splits as many rows as another separator, the comma is assumed to be a decimal separator.
        """
        if found := _DECLARATION.match(sample):
            return cls(found.group(1), declared=True)
        lines = [line for line in sample[:_SAMPLE_CHARACTERS].splitlines(keepends=True) if line.strip()]

        def steadiness(mark: str) -> tuple[int, bool, int]:
            rows = csv.reader(lines[:_SAMPLE_ROWS], delimiter=mark)
            counts = [len(row) - 1 for row in rows if row]
            usual = max(counts, key=counts.count, default=0)
            return (counts.count(usual) if usual else 0, mark != "," and usual > 0, usual)

        return cls(max(",;\t|", key=steadiness))

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """Yields the rows. Raises ``DocumentUnreadable``."""
        try:
            rest = iter(lines)
            if self.declared:
                next(rest, None)
            yield from csv.reader(rest, delimiter=self.delimiter)
        except csv.Error as problem:
            raise DocumentUnreadable(f"Invalid CSV file: {problem}.") from None
        except UnicodeError:
            raise DocumentUnreadable("The file isn't valid CSV: it contains bytes that aren't text.") from None


@dataclass(frozen=True, slots=True)
class CsvFormat:
    encoding: str
    errors: str
    dialect: CsvDialect

    @classmethod
    def of(cls, path: Path) -> Self:
        """Detects the encoding and the dialect of a file. Raises ``DocumentUnreadable``."""
        encoding, errors = encoding_of(path)
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            return cls(encoding, errors, CsvDialect.of(file.read(_SAMPLE_CHARACTERS)))

    def rows(self, path: Path) -> Iterator[list[str]]:
        """Yields the rows of the file. Raises ``DocumentUnreadable``."""
        with path.open(encoding=self.encoding, errors=self.errors, newline="") as file:
            yield from self.dialect.rows(file)
