"""Reads CSV files in any of the usual encodings and with any of the usual separators."""

import codecs
import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from libs.confined import JobRefused

_SAMPLE_CHARACTERS: Final = 65_536
_PIECE_BYTES: Final = 1024**2
_FALLBACK: Final = "cp1252"

# As large as the csv module takes: how large a file is has been checked before.
csv.field_size_limit(2**31 - 1)


class TableUnreadable(JobRefused):
    """The file cannot be read; the message is for its owner."""


@dataclass(frozen=True, slots=True)
class CsvFormat:
    encoding: str
    delimiter: str

    @classmethod
    def of(cls, path: Path) -> Self:
        encoding = _encoding(path)
        with path.open(encoding=encoding, errors="replace", newline="") as file:
            return cls(encoding, delimiter(file.read(_SAMPLE_CHARACTERS)))

    def rows(self, path: Path) -> Iterator[list[str]]:
        """Raises ``TableUnreadable``."""
        errors = "replace" if self.encoding == _FALLBACK else "strict"
        with path.open(encoding=self.encoding, errors=errors, newline="") as file:
            yield from csv_rows(file, self.delimiter)


def csv_rows(lines: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """Raises ``TableUnreadable``."""
    try:
        yield from csv.reader(lines, delimiter=delimiter)
    except csv.Error as problem:
        raise TableUnreadable(f"The file is not valid CSV: {problem}.") from None
    except UnicodeError:
        raise TableUnreadable("The file is not valid CSV: it has bytes that are no text.") from None


def delimiter(sample: str) -> str:
    """The separator that occurs equally often in most of the first lines."""
    lines = [line for line in sample.splitlines()[:20] if line.strip()]

    def steadiness(mark: str) -> tuple[int, int]:
        counts = [line.count(mark) for line in lines]
        usual = max(counts, key=counts.count, default=0)
        return (counts.count(usual) if usual else 0, usual)

    return max(",;\t|", key=steadiness)


def _encoding(path: Path) -> str:
    """UTF-16 by its mark, UTF-8 when all bytes are; anything else is taken for Western European."""
    with path.open("rb") as file:
        if file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            return "utf-16"
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            while piece := file.read(_PIECE_BYTES):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            return _FALLBACK
    return "utf-8-sig"
