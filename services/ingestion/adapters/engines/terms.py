"""Terms of a text for keyword search: words without case, accents and endings, function words left out."""

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from itertools import filterfalse
from threading import Lock
from zlib import crc32

import numpy as np
import snowballstemmer  # type: ignore[import-untyped]

from services.ingestion.domain.documents import TermCounts

_WORDS = re.compile(r"[^\W_]+(?:'[^\W_]+)?")
# Scripts without spaces between words are indexed by pairs of characters.
_UNSPACED = re.compile(r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
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
# Bounded, since serial numbers are words without end.
_REMEMBERED = 300_000
_NO_TERM = -1
NUMBER_OF_TERMS = 1_000_000_000
"""Terms are numbered from 0 up to this; two of them share a number about once in 40,000 words of vocabulary."""


class Terms:
    """Maps words to terms, with a cache, since stemming costs more than everything else.

    Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._stemmer = snowballstemmer.stemmer("english")
        self._stems: dict[str, str] = {}
        # The stemmer is not thread-safe.
        self._lock = Lock()
        self._numbers = _Numbers(self._learn)

    def counts(self, text: str) -> TermCounts:
        """Counts each term's occurrences without making the terms themselves."""
        if _UNSPACED.search(text):
            counted = Counter(map(number, self.of(text)))
        else:
            counted = Counter(map(self._numbers.__getitem__, _words(text)))
            counted.pop(_NO_TERM, None)
        numbers = np.fromiter(counted.keys(), np.int32, len(counted))
        counts = np.fromiter(counted.values(), np.int32, len(counted))
        order = np.argsort(numbers)
        return TermCounts(numbers[order], counts[order], int(counts.sum()))

    def of(self, text: str) -> list[str]:
        """In the order of the text, repetitions included."""
        known = self._stems
        found: list[str] = []
        for word in _words(text):
            stem = known.get(word)
            if stem is None:
                if _UNSPACED.search(word):
                    found.extend(_pairs(word))
                    continue
                stem = self._learn(word)
            if stem:
                found.append(stem)
        return found

    def _learn(self, word: str) -> str:
        with self._lock:
            stem: str = "" if word in _FUNCTION_WORDS else self._stemmer.stemWord(word).removesuffix("'")
            if len(self._stems) >= _REMEMBERED:
                self._stems.clear()
            self._stems[word] = stem
        return stem


class _Numbers(dict[str, int]):
    """Numbers by word; a missing word is added."""

    def __init__(self, learn: Callable[[str], str]) -> None:
        super().__init__()
        self._learn = learn

    def __missing__(self, word: str) -> int:
        stem = self._learn(word)
        if len(self) >= _REMEMBERED:
            self.clear()
        self[word] = found = number(stem) if stem else _NO_TERM
        return found


def number(term: str) -> int:
    """Stable number of a term, as stored."""
    return crc32(term.encode()) % NUMBER_OF_TERMS


def _words(text: str) -> list[str]:
    if not text.isascii():
        text = _without_accents(text)
    return _WORDS.findall(text.lower())


def _pairs(word: str) -> list[str]:
    return [word[i : i + 2] for i in range(len(word) - 1)] or [word]


def _without_accents(text: str) -> str:
    split = unicodedata.normalize("NFKD", text.replace("\u2019", "'"))
    return unicodedata.normalize("NFC", "".join(filterfalse(unicodedata.combining, split)))
