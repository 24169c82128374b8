"""Analyzes texts and queries for keyword search.

If you change the resulting terms, increment ``ANALYSIS`` in the domain, because existing indexes no longer match them.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from threading import Lock
from typing import Final, TypeVar
from zlib import crc32

import numpy as np
import regex
import snowballstemmer  # type: ignore[import-untyped]

from services.ingestion.domain.documents import TermCounts

T = TypeVar("T")
# Joints (hyphens, dots and the like) keep codes such as ERR-4711 and 12.5kg together. Their parts are also indexed.
_WORDS: Final = re.compile(r"[^\W_]+(?:[-._'][^\W_]+)*")
# This pattern also matches combining marks, such as the vowel signs of Indic scripts, but takes twice as long.
_WORDS_WITH_MARKS: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:[-._'][\p{L}\p{M}\p{N}]+)*")
_MARK: Final = regex.compile(r"\p{M}")
# Soft hyphens, joiners and other invisible characters.
_INVISIBLE: Final = regex.compile(r"\p{Cf}+")
# Scripts without spaces between words, or with many endings (Hangul), are indexed by character pairs.
_PAIRED: Final = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uf900-\ufaff"
_RUNS: Final = re.compile(f"[{_PAIRED}]+|[^{_PAIRED}]+")
_IS_PAIRED: Final = re.compile(f"[{_PAIRED}]")
_JOINTS: Final = re.compile(r"[-._]")
_DROPPED_JOINTS: Final = re.compile(r"(?<!\d)[-._]|[-._](?!\d)")
_DIGIT: Final = re.compile(r"\d")
_DECIMAL: Final = re.compile(r"\d+(?:\.\d+)+")
_MIXED: Final = re.compile(r"(\d+)([^\W\d_]+)|([^\W\d_]+)(\d+)")
_LONGEST_CODE: Final = 40
# In scripts without spaces, a word can be as long as a sentence.
_LONGEST_REMEMBERED: Final = 40
# Combining classes of accents and points. Other marks, such as viramas, are part of a letter.
_ACCENTS: Final = frozenset({7, *range(10, 36), 103, 107, *range(200, 256)})
# Characters without a Unicode decomposition.
_FOLDED: Final = str.maketrans(
    {
        "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ø": "o", "ł": "l", "\u0131": "i", "đ": "d", "ð": "d", "ħ": "h",
        "ŧ": "t", "ŋ": "n", "\u03c2": "\u03c3",
    }
)  # fmt: skip
_SIGNS: Final = str.maketrans({"\u2019": "'", "\u2010": "-", "\u2011": "-"})
_ENGLISH = (
    "a about above after again against all also am an and any are as at be because been before being below "
    "between both but by can cannot could did do does doing down during each few for from further had has have "
    "having he her here hers herself him himself his how i if in into is it its itself just me more most my "
    "myself no nor not of off on once only or other ought our ours ourselves out over own same shall she should "
    "so some such than that the their theirs them themselves then there these they this those through to too "
    "under until up upon us very was we were what when where which while who whom why will with would you your "
    "yours yourself yourselves don't doesn't didn't isn't aren't wasn't weren't won't can't couldn't wouldn't "
    "shouldn't hasn't haven't hadn't"
)
_FUNCTION_WORDS = frozenset(_ENGLISH.split())
# Limits the cache, since every serial number is a new word.
_REMEMBERED = 300_000
NUMBER_OF_TERMS = 1_000_000_000
"""Term numbers range from 0 to this number minus 1. Among 40,000 different words, expect about one collision."""


class Analysis:
    """Converts words to terms. Terms are cached, because stemming is the slowest step. Thread-safe."""

    def __init__(self) -> None:
        self._stemmer = snowballstemmer.stemmer("english")
        # The stemmer isn't thread-safe.
        self._lock = Lock()
        self._terms = _Cache(self._learn)
        self._numbers = _Cache(lambda word: map(number, self._terms[word]))

    def counts(self, text: str) -> TermCounts:
        counted = Counter(chain.from_iterable(map(self._numbers.__getitem__, _words(text))))
        numbers = np.fromiter(counted.keys(), np.int32, len(counted))
        counts = np.fromiter(counted.values(), np.int32, len(counted))
        order = np.argsort(numbers)
        return TermCounts(numbers[order], counts[order], int(counts.sum()))

    def terms(self, text: str) -> list[str]:
        """Returns the text's terms in order, including repetitions."""
        return [term for word in _words(text) for term in self._terms[word]]

    def _learn(self, word: str) -> list[str]:
        with self._lock:
            return list(self._made_of(word))

    def _made_of(self, word: str) -> Iterator[str]:
        for piece in _JOINTS.split(word):
            if not _IS_PAIRED.search(piece):
                yield from self._stems(piece)
                continue
            for run in _RUNS.findall(piece):
                yield from _pairs(run) if _IS_PAIRED.search(run) else self._stems(run)
        if len(word) <= _LONGEST_CODE and _DIGIT.search(word) and _JOINTS.search(word):
            # ERR-4711 and ERR4711 are the same code, but 12.5 and 125 are different numbers.
            yield (whole := _DROPPED_JOINTS.sub("", word))
            yield from (decimal for decimal in _DECIMAL.findall(word) if decimal != whole)

    def _stems(self, word: str) -> Iterator[str]:
        if word in _FUNCTION_WORDS:
            return
        if stem := self._stemmer.stemWord(word).removesuffix("'"):
            yield stem
        if mixed := _MIXED.fullmatch(word):
            for part in filter(None, mixed.groups()):
                yield from self._stems(part)


class _Cache(dict[str, tuple[T, ...]]):
    """A cache that maps words to values, and computes missing values."""

    def __init__(self, make: Callable[[str], Iterable[T]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, word: str) -> tuple[T, ...]:
        found = tuple(self._make(word))
        if len(word) <= _LONGEST_REMEMBERED:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[word] = found
        return found


def number(term: str) -> int:
    """Returns a term's number. Indexes store the number, so it must never change."""
    return crc32(term.encode()) % NUMBER_OF_TERMS


def _words(text: str) -> list[str]:
    if text.isascii():
        return _WORDS.findall(text.lower())
    folded = _folded(text)
    found: list[str] = (_WORDS_WITH_MARKS if _MARK.search(folded) else _WORDS).findall(folded)
    return found


def _pairs(word: str) -> list[str]:
    return [word[i : i + 2] for i in range(len(word) - 1)] or [word]


def _folded(text: str) -> str:
    split = unicodedata.normalize("NFKD", _INVISIBLE.sub("", text.translate(_SIGNS)))
    kept = _MARK.sub(_unless_accent, split)
    return unicodedata.normalize("NFC", kept).lower().translate(_FOLDED)


def _unless_accent(mark: "regex.Match[str]") -> str:
    sign: str = mark.group()
    return "" if unicodedata.combining(sign) in _ACCENTS else sign
