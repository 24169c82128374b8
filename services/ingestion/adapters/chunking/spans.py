"""Cuts a text into spans that fit and packs those into chunks; works on offsets, without copying text."""

import re
from collections.abc import Iterator, Sequence

from services.ingestion.adapters.chunking.units import SENTENCE_GAP, Units

Span = tuple[int, int]
_FRESH_START = re.compile(rf"{SENTENCE_GAP.pattern}|\n")
_GAP = re.compile(r"\s+")


class Cutter:
    """Cuts one text into spans. `size` and `overlap` count units."""

    def __init__(self, text: str, units: Units, size: int, overlap: int) -> None:
        self._text = text
        self._units = units
        self._size = size
        self._overlap = overlap

    def windows(self, span: Span) -> Iterator[Span]:
        """Chunks of exactly `size` units, each repeating the last `overlap` of the one before."""
        start, end = span
        while start < end:
            stop = min(self._units.after(start, self._size), end)
            yield start, stop
            if stop >= end:
                return
            start = max(self._units.before(stop, self._overlap), start + 1)

    def pieces(self, span: Span, separators: Sequence[str]) -> Iterator[Span]:
        """The largest spans between `separators`, the first of them preferred, that fit `size`; in order, no gaps."""
        start, end = span
        if self._units.count(start, end) <= self._size:
            if start < end:
                yield span
            return
        for level, separator in enumerate(separators):
            if self._text.find(separator, start, end - 1) >= 0:
                for part in self._between(span, separator):
                    yield from self.pieces(part, separators[level + 1 :])
                return
        while start < end:
            stop = min(self._units.after(start, self._size), end)
            yield start, stop
            start = stop

    def _between(self, span: Span, separator: str) -> Iterator[Span]:
        start, end = span
        while start < end:
            found = self._text.find(separator, start, end)
            stop = end if found < 0 else found + len(separator)
            yield start, stop
            start = stop

    def packed(self, pieces: Iterator[Span]) -> Iterator[Span]:
        """Neighbouring pieces joined up to `size`; each chunk after the first begins with up to `overlap` units
        of the one before, from the start of a sentence or else of a word."""
        start = end = -1
        for piece_start, piece_end in pieces:
            if start < 0:
                start, end = piece_start, piece_end
            elif self._units.count(start, piece_end) <= self._size:
                end = piece_end
            else:
                yield start, end
                start, end = self._repeated(start, piece_start, piece_end), piece_end
        if start >= 0:
            yield start, end

    def _repeated(self, last_start: int, piece_start: int, piece_end: int) -> int:
        earliest = max(
            self._units.before(piece_start, self._overlap),
            self._units.before(piece_end, self._size),
            last_start + 1,
        )
        if earliest >= piece_start:
            return piece_start
        sentence = _FRESH_START.search(self._text, earliest, piece_start)
        if sentence and self._text[sentence.end() : piece_start].strip():
            return sentence.end()
        if earliest == 0 or self._text[earliest - 1].isspace():
            return earliest
        gap = _GAP.search(self._text, earliest, piece_start)
        return gap.end() if gap else earliest
