"""Checks documents, docstrings, comments and messages.

Finds phrases from ``prose_words.toml``, long sentences, wide table cells and long pages, except in generated parts.
"""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from tools.reference.markdown import by_hand

_ROOMS: Final = ("benchmarks", "cli", "clients", "deploy", "docs", "examples", "libs", "services", "tools", "web")
_PAGES: Final = ("README.md", "tests/README.md")
# Records of measurements, third-party texts and texts for demonstrations.
_SKIPPED: Final = ("benchmarks/results", "examples/documents", "examples/migrations", "web/vendor")
_SUFFIXES: Final = frozenset({".js", ".md", ".py"})
_WORDS: Final = Path(__file__).with_name("prose_words.toml")
_EXCEPTED: Final[Mapping[tuple[str, str], str]] = {
    ("services/runtime/domain/models.py", "long messages"): "instructions to a model",
    ("tools/lint/vocabulary.py", "phrases"): "words that a rule finds",
}

_MOST_WORDS_OF_SENTENCE: Final = 30
_MOST_WORDS_OF_MESSAGE_SENTENCE: Final = 20
_MOST_WORDS_OF_CELL: Final = 15
_MOST_WORDS_OF_PAGE: Final = 2000

_SENTENCE_END: Final = re.compile(r"(?<=[.!?])[\"')*_]*\s+(?=[\"'(*`]*[A-Z0-9`…])|\n\s*\n|\n\s*(?=[*-] )")
_IS_WORD: Final = re.compile(r"\w")
_PUNCTUATION: Final = re.compile(r"[.,:;!?]")
_IS_CODE: Final = re.compile(r"[{}<>=$\\]|\b(?:SELECT|INSERT|UPDATE|DELETE FROM|WHERE|CREATE|ALTER|JOIN|VALUES|AS)\b")


@dataclass(frozen=True)
class _Finding:
    kind: str
    path: str
    line: int
    message: str


def findings(root: Path) -> Iterator[str]:
    phrases = _phrases()
    in_rooms = (file for room in _ROOMS for file in sorted((root / room).rglob("*")))
    for file in (*in_rooms, *(root / page for page in _PAGES)):
        path = file.relative_to(root).as_posix()
        if file.suffix not in _SUFFIXES or path.startswith(_SKIPPED) or not file.is_file():
            continue
        for found in _of_file(path, file.read_text(), phrases):
            if (path, found.kind) not in _EXCEPTED:
                yield f"{path}:{found.line}: {found.kind}: {found.message}"


def _of_file(path: str, text: str, phrases: "_Phrases") -> Iterator[_Finding]:
    if path.endswith(".md"):
        yield from _of_page(path, text, phrases)
        return
    yield from phrases.findings(path, text)
    if path.endswith(".py"):
        yield from _of_module(path, text)


@dataclass(frozen=True)
class _Phrases:
    pattern: re.Pattern[str]
    instead: tuple[str, ...]

    def findings(self, path: str, text: str, line: int = 1) -> Iterator[_Finding]:
        for found in self.pattern.finditer(text):
            number = int((found.lastgroup or "_0")[1:])
            at = line + text.count("\n", 0, found.start())
            words = " ".join(found[0].replace("#", " ").split())
            yield _Finding("phrases", path, at, f"{words}: {self.instead[number]}")


def _phrases() -> _Phrases:
    rules: dict[str, str] = tomllib.loads(_WORDS.read_text())
    gap = r"(?:\s|#|\*)+"
    # Inner groups are made non-capturing, so that the name of the matching group identifies the rule.
    parts = [re.sub(r"\((?!\?)", "(?:", each).replace(" ", gap) for each in rules]
    pattern = "|".join(f"(?P<_{number}>{part})" for number, part in enumerate(parts))
    return _Phrases(re.compile(rf"\b(?:{pattern})(?!\w)", re.IGNORECASE), tuple(rules.values()))


def _of_page(path: str, text: str, phrases: _Phrases) -> Iterator[_Finding]:
    written = by_hand(text)
    if (words := _count(written)) > _MOST_WORDS_OF_PAGE:
        yield _Finding(
            "long pages", path, 1, f"{words} words, at most {_MOST_WORDS_OF_PAGE}: split or shorten the page"
        )
    line, in_cell = 1, False
    for token in MarkdownIt().enable("table").parse(written):
        line = token.map[0] + 1 if token.map else line
        if token.type in ("td_open", "td_close"):
            in_cell = token.type == "td_open"
        if token.type != "inline":
            continue
        read = "".join(
            "\n" if child.type.endswith("break") else "`x`" if child.type == "code_inline" else child.content
            for child in token.children or ()
        )
        yield from phrases.findings(path, read, line)
        if not in_cell:
            yield from _long_sentences(path, line, read, _MOST_WORDS_OF_SENTENCE, "long sentences")
        elif (words := _count(read)) > _MOST_WORDS_OF_CELL:
            yield _Finding("wide cells", path, line, f"{words} words, at most {_MOST_WORDS_OF_CELL}: {_start(read)}")


def _of_module(path: str, source: str) -> Iterator[_Finding]:
    waiting: list[tuple[ast.AST, int]] = [(ast.parse(source), _MOST_WORDS_OF_MESSAGE_SENTENCE)]
    while waiting:
        node, most = waiting.pop()
        match node:
            case ast.Expr(value=ast.Constant(value=str(text))):
                yield from _long_sentences(path, node.lineno, text, _MOST_WORDS_OF_SENTENCE, "long sentences")
                continue
            case ast.Constant(value=str(text)):
                yield from _of_literal(path, node.lineno, text, most)
                continue
            case ast.JoinedStr():
                parts = (str(each.value) if isinstance(each, ast.Constant) else "x" for each in node.values)
                yield from _of_literal(path, node.lineno, "".join(parts), most)
                waiting += [(each.value, most) for each in node.values if isinstance(each, ast.FormattedValue)]
                continue
            case ast.keyword(arg="description"):
                most = _MOST_WORDS_OF_SENTENCE
        for value in vars(node).values():
            if isinstance(value, ast.AST):
                waiting.append((value, most))
            elif isinstance(value, list):
                waiting += [(each, most) for each in value if isinstance(each, ast.AST)]


def _of_literal(path: str, line: int, text: str, most: int) -> Iterator[_Finding]:
    # A list of words has no punctuation.
    if text.count(" ") >= most and _PUNCTUATION.search(text) and not _IS_CODE.search(text):
        yield from _long_sentences(path, line, text, most, "long messages")


def _long_sentences(path: str, line: int, text: str, most: int, kind: str) -> Iterator[_Finding]:
    for sentence in _SENTENCE_END.split(text):
        if (words := _count(sentence)) > most:
            at = line + text.count("\n", 0, text.index(sentence))
            yield _Finding(kind, path, at, f"{words} words, at most {most}: {_start(sentence)}")


def _count(text: str) -> int:
    return sum(1 for word in text.split() if _IS_WORD.search(word))


def _start(text: str) -> str:
    return " ".join(text.split())[:60]
