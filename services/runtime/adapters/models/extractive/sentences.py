"""Splits text into sentences for the built-in model, and ranks them by relevance to a question."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

_STOP_WORD_LIST = """
    a about above after again all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each few for from further had has have
    having he her here hers him his how i if in into is it its itself just me more most my no nor not
    now of off on once only or other our out over own please same she should so some such tell than that
    the their them then there these they this those through to too under until up us very was we were
    what when where which while who whom why will with would you your say says according give explain
    describe document text passage
"""
_STOP_WORDS = frozenset(_STOP_WORD_LIST.split())
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)?")
_ABBREVIATION = re.compile(
    r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sr|Jr|vs|etc|e\.g|i\.e|cf|No|Fig|Inc|Ltd|Co|approx)|\b[A-Z])\.$",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'\u201d\u2019)\]]*\s+(?=[\"'\u201c\u2018(\[]*[A-Z0-9À-Þ])")
_BLANK_LINE = re.compile(r"\n\s*\n")
_LIST_ITEM = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_HEADING = re.compile(r"\s*#{1,6}\s+")
# A row of a Markdown table, or of a spreadsheet in ingestion's format, where each value follows its column's name.
_ROW = re.compile(r"\s*\|.*\|\s*$|[^:,]{1,60}: [^:]{1,200}, [^:,]{1,60}: ")
_RULE = re.compile(r"[\s|:-]*$")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence at `position` in text number `source`. `words` and `heading` are stemmed."""

    text: str
    words: tuple[str, ...]
    source: int
    position: int
    heading: tuple[str, ...] = ()


def stem(word: str) -> str:
    """Removes endings such as -s, -ing, -ed and -ly, so that "opened" matches "opening"."""
    word = word.lower().replace("\u2019", "'").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending, left in (("ing", 4), ("edly", 4), ("ed", 4), ("ly", 4), ("es", 4), ("s", 3)):
        if word.endswith(ending) and len(word) - len(ending) >= left and not word.endswith("ss"):
            word = word[: -len(ending)]
            break
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def content_words(text: str) -> tuple[str, ...]:
    return tuple(stem(word) for word in _WORD.findall(text) if word.lower() not in _STOP_WORDS)


def sentences(text: str, source: int = 0) -> list[Sentence]:
    """Splits text into sentences. Headings aren't returned, but apply to the sentences below them."""
    found: list[Sentence] = []
    heading: tuple[str, ...] = ()
    for block in _BLANK_LINE.split(text):
        for line in _lines(block):
            if _is_heading(line):
                heading = content_words(line)
                continue
            for piece in _split(line):
                found.append(Sentence(piece, content_words(piece), source, len(found), heading))
    return found


def _lines(block: str) -> list[str]:
    """Joins wrapped lines of running text. Keeps list items, headings and table rows separate."""
    lines: list[str] = []
    for line in block.splitlines():
        if _RULE.match(line):
            continue
        begins = _LIST_ITEM.match(line) or _HEADING.match(line) or _ROW.match(line)
        if begins or not lines or _HEADING.match(lines[-1]) or _ROW.match(lines[-1]):
            lines.append(line.strip())
        else:
            lines[-1] += " " + line.strip()
    return [line for line in lines if line]


def _is_heading(line: str) -> bool:
    if _HEADING.match(line):
        return True
    return len(line) < 80 and line[-1].isalnum() and line[0].isupper() and len(line.split()) <= 8


def _split(line: str) -> list[str]:
    pieces: list[str] = []
    for piece in _SENTENCE_END.split(_LIST_ITEM.sub("", line)):
        if pieces and _ABBREVIATION.search(pieces[-1][-12:]):
            pieces[-1] += " " + piece
        elif piece.strip():
            pieces.append(piece.strip())
    return pieces


class Ranking:
    """Ranks sentences by BM25. A sentence that fits the kind of question (who, when, how many) gets a bonus."""

    def __init__(self, candidates: Sequence[Sentence]) -> None:
        self.candidates = candidates
        self._frequency = Counter(word for sentence in candidates for word in {*sentence.words})
        self._mean_length = max(1.0, sum(len(s.words) for s in candidates) / max(1, len(candidates)))

    def weight(self, word: str) -> float:
        count = self._frequency[word]
        return math.log(1 + (len(self.candidates) - count + 0.5) / (count + 0.5)) if count else 0.0

    def best(self, question: str, limit: int) -> list[Sentence]:
        """Returns the sentences that answer `question`, best first. The list is empty if no sentence is relevant."""
        wanted = {*content_words(question)}
        signs = [sign for kind, sign in _KINDS if kind.search(question)]
        scored = [(self._score(sentence, wanted, signs), sentence) for sentence in self.candidates]
        top = max((score for score, _ in scored), default=0.0)
        # A sentence that scores far below the best one only shares a common word with the question.
        fitting = [(score, sentence) for score, sentence in scored if score > 0 and score >= top * 0.6]
        fitting.sort(key=lambda item: (-item[0], item[1].source, item[1].position))
        if not fitting:
            return self._of_measure(question)[:1]
        return _distinct([sentence for _, sentence in fitting])[:limit]

    def _of_measure(self, question: str) -> list[Sentence]:
        """If the question asks for a measurement or price ("how tall"), returns the sentences that contain one."""
        signs = [sign for kind, sign in _MEASURES if kind.search(question)]
        return [s for s in self.candidates if any(sign.search(s.text) for sign in signs)]

    def central(self, limit: int) -> list[Sentence]:
        """Returns the sentences that best summarize the texts, in the order of the texts.

        The first sentence of each section is preferred.
        """
        common = {word: count for word, count in self._frequency.items() if count > 1}
        opening = {(s.source, s.heading): s for s in reversed(self.candidates) if len(s.words) > 2}

        def centrality(sentence: Sentence) -> tuple[bool, float]:
            mass = sum(math.log(1 + common.get(word, 0)) for word in {*sentence.words})
            opens = sentence is opening.get((sentence.source, sentence.heading))
            return opens, mass / math.sqrt(4 + len(sentence.words))

        ranked = sorted(self.candidates, key=centrality, reverse=True)
        return sorted(_distinct(ranked)[:limit], key=lambda s: (s.source, s.position))

    def _score(self, sentence: Sentence, wanted: set[str], signs: Sequence[re.Pattern[str]]) -> float:
        counts = Counter(sentence.words)
        length = 0.25 + 0.75 * len(sentence.words) / self._mean_length
        score = sum(
            self.weight(word) * counts[word] * 2.2 / (counts[word] + 1.2 * length) for word in wanted & counts.keys()
        )
        score += sum(0.5 * (self.weight(word) or 1.0) for word in wanted & {*sentence.heading})
        fits = score > 0 and any(sign.search(sentence.text) for sign in signs)
        return score * (1.35 if fits else 1.0)


_KINDS = (
    (re.compile(r"\b(?:when|what (?:year|date|day|time)|which year|since when)\b", re.IGNORECASE),
     re.compile(r"\b\d{4}\b|\b\d{1,2}[:.]\d{2}\b|\b(?:January|February|March|April|May|June|July|August|September"
                r"|October|November|December|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday)\b")),
    (re.compile(r"\bhow (?:many|much|long|old|far|high|deep|tall|big|large|fast|often)\b"
                r"|\bwhat (?:percentage|number)\b", re.IGNORECASE),
     re.compile(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|thirty|forty|fifty"
                r"|hundred|thousand|million)\b", re.IGNORECASE)),
    (re.compile(r"\bwho(?:m|se)?\b", re.IGNORECASE), re.compile(r"(?<=[a-z,;] )[A-Z][a-z]+")),
    (re.compile(r"\bwhy\b", re.IGNORECASE),
     re.compile(r"\b(?:because|since|therefore|so that|in order to|due to|reason)\b", re.IGNORECASE)),
)  # fmt: skip
_MEASURES = (
    (re.compile(r"\bhow (?:tall|high|wide|long|far|deep|big|large)\b", re.IGNORECASE),
     re.compile(r"\d\s?(?:m|cm|km|(?:kilo)?met(?:re|er)s?|feet|ft|miles?|inches)\b", re.IGNORECASE)),
    (re.compile(r"\b(?:cost|price|expensive|how much (?:is|are|money))\b", re.IGNORECASE),
     re.compile(r"[$€£]\s?\d|\d\s?(?:[$€£]|euros?|dollars?|pounds?|USD|EUR)(?!\w)", re.IGNORECASE)),
)  # fmt: skip


def _distinct(ranked: Sequence[Sentence]) -> list[Sentence]:
    """Removes duplicates, since overlapping chunks often contain the same sentence."""
    seen: set[tuple[str, ...]] = set()
    result = []
    for sentence in ranked:
        if sentence.words and sentence.words not in seen:
            seen.add(sentence.words)
            result.append(sentence)
    return result
