"""A folder as people have it: 190 good files of every kind, and 10 that nothing can be made of.

Every good file holds one word that no other holds (its `marker`), so that a search can prove it was indexed.
"""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.office_files import doc, docx, pdf, xls, xlsx

GOOD = 190
_TOPICS = (
    "The ferry leaves the harbour at seven and crosses the sound in twenty minutes.",
    "Invoices are paid within thirty days; late payment costs eight percent a year.",
    "The pump must be drained before frost, and its filter cleaned every spring.",
    "Visitors sign in at the gate and wear their badge until they leave.",
    "Bread dough rests for an hour in a warm place before it is shaped.",
    "The glacier lost four metres of ice in the warm summer of the survey.",
)
_GERMAN = "Die Fähre verlässt den Hafen um sieben; Grüße aus Köln, schöne Straßen überall."
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "xu", "za")


@dataclass(frozen=True, slots=True)
class GoodFile:
    name: str
    content: bytes
    marker: str


@dataclass(frozen=True, slots=True)
class PoisonFile:
    """`codes` are what a parser may say of it; `at_upload` when extension and signature already give it away."""

    name: str
    content: bytes
    codes: frozenset[str]
    at_upload: bool = False


def good_files(count: int = GOOD) -> Iterator[GoodFile]:
    kinds = list(_WRITERS)
    for number in range(count):
        marker = _marker(number)
        text = f"{_TOPICS[number % len(_TOPICS)]}\n\nThe code word of this document is {marker}."
        kind = kinds[number % len(kinds)]
        yield GoodFile(f"{number:03d}-{kind}", _WRITERS[kind](text), marker)


def poison_files() -> Iterator[PoisonFile]:
    yield PoisonFile("truncated.pdf", pdf(["A page that is cut off. " * 40] * 5)[:1500], frozenset({"damaged"}))
    yield PoisonFile("encrypted.pdf", pdf(["A secret page."], encrypted=True), frozenset({"encrypted"}))
    yield PoisonFile("bomb.docx", docx(["A bomb."], bomb_bytes=100_000_000), frozenset({"too_large", "memory"}))
    yield PoisonFile("nothing.txt", b"", frozenset({"empty"}), at_upload=True)
    yield PoisonFile("wrong.pdf", b"\x89PNG\r\n\x1a\n" + bytes(100), frozenset({"damaged"}), at_upload=True)
    yield PoisonFile("one-line.txt", b"word " * 10_000_000, frozenset({"too_large", "memory", "timeout"}))
    yield PoisonFile("random.txt", random.Random(7).randbytes(50_000), frozenset({"damaged"}))
    yield PoisonFile("million.xlsx", million_rows(), frozenset({"too_large", "memory", "timeout"}))
    yield PoisonFile("half.docx", docx(["A file cut in half. " * 200])[:700], frozenset({"damaged"}))
    yield PoisonFile("broken.json", b'{"rows": [1, 2, ', frozenset({"damaged"}))


def write_corpus(folder: Path) -> tuple[list[GoodFile], list[PoisonFile]]:
    """200 files in `folder`, about 55 MB."""
    good, poison = list(good_files()), list(poison_files())
    for file in (*good, *poison):
        (folder / file.name).write_bytes(file.content)
    return good, poison


def million_rows() -> bytes:
    return xlsx({"Readings": ((number,) for number in range(1_000_000))})


def _marker(number: int) -> str:
    """A word of letters alone, so that every tokenizer and stemmer leaves it whole."""
    digits = (number // 256 % 16, number // 16 % 16, number % 16)
    return "q" + "".join(_SYLLABLES[digit] for digit in digits) + "x"


def _csv(text: str) -> bytes:
    out = io.StringIO()
    csv.writer(out).writerows([("kind", "text"), ("note", text), ("other", "a second row")])
    return out.getvalue().encode()


_WRITERS: dict[str, Callable[[str], bytes]] = {
    "notes.txt": str.encode,
    "latin.txt": lambda text: f"{_GERMAN}\n{text}".encode("latin-1"),
    "wide.txt": lambda text: f"{_GERMAN}\n{text}".encode("utf-16"),
    "guide.md": lambda text: f"# Guide\n\n{text}\n\n## More\n\n* one\n* two\n".encode(),
    "page.html": lambda text: f"<html><head><title>Page</title></head><body><p>{text}</p></body></html>".encode(),
    "table.csv": _csv,
    "data.json": lambda text: json.dumps([{"id": 1, "text": text}, {"id": 2, "text": "second"}]).encode(),
    "report.pdf": lambda text: pdf([text, "The second page."]),
    "letter.docx": lambda text: docx(["# Letter", *text.split("\n\n"), "Kind regards, Smith & Sons"]),
    "sheet.xlsx": lambda text: xlsx({"Notes": [("kind", "text"), ("note", text)], "Sums": [("a", "b"), (1, 2.5)]}),
    "old.doc": doc,
    "old.xls": lambda text: xls([("kind", "text"), ("note", text.replace("\n\n", " "))]),
}
