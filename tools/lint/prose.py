"""Checks documents, docstrings, comments and messages.

Finds phrases from ``prose_words.toml``, long sentences, wide table cells and long pages, except in generated parts.
``prose_counts.toml`` contains the allowed findings per folder. ``python -m tools.lint.prose`` lowers the counts.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

from tools.reference.markdown import by_hand

_ROOMS: Final = (
    *("benchmarks", "cli", "clients", "deploy", "docs/decisions", "docs", "examples", "libs", "services/artifacts"),
    *("services/gateway", "services/ingestion", "services/registry", "services/runtime", "services/timeline", "tools"),
    *("web", "README.md", "tests/README.md"),
)
# Records of measurements, third-party texts and texts for demonstrations.
_SKIPPED: Final = ("benchmarks/results", "examples/documents", "examples/migrations", "web/vendor")
_SUFFIXES: Final = frozenset({".js", ".md", ".py"})
_WORDS: Final = Path(__file__).with_name("prose_words.toml")
_COUNTS: Final = "tools/lint/prose_counts.toml"
_LOWER: Final = "python -m tools.lint.prose"

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
    found = _by_kind_and_room(root)
    allowed = _allowed(root)
    for kind, room in sorted(found.keys() | allowed.keys()):
        here, most = found.get((kind, room), []), allowed.get((kind, room), 0)
        if len(here) > most:
            yield f"{room}: findings of {kind!r}: {len(here)}, allowed: {most}. Rewrite the new ones:"
            yield from (f"  {each.path}:{each.line}: {each.message}" for each in here)
        elif len(here) < most:
            yield f"{_COUNTS}: {room} has {len(here)} of {kind!r}, but allows {most}. Lower the count with: {_LOWER}"


def lower(root: Path) -> None:
    """Lowers the allowed counts to the current numbers of findings. Never raises a count."""
    found, allowed = _by_kind_and_room(root), _allowed(root)
    by_kind: dict[str, dict[str, int]] = defaultdict(dict)
    for (kind, room), most in sorted(allowed.items()):
        if count := min(most, len(found.get((kind, room), []))):
            by_kind[kind][room] = count
    tables = (
        f'\n["{kind}"]\n' + "".join(f'"{room}" = {count}\n' for room, count in rooms.items())
        for kind, rooms in by_kind.items()
    )
    heading = f"# Allowed findings by kind and folder. Counts may only decrease: {_LOWER}\n"
    (root / _COUNTS).write_text(heading + "".join(tables))


def _allowed(root: Path) -> dict[tuple[str, str], int]:
    file = root / _COUNTS
    tables = tomllib.loads(file.read_text()) if file.exists() else {}
    return {(kind, room): most for kind, rooms in tables.items() for room, most in rooms.items()}


def _by_kind_and_room(root: Path) -> Mapping[tuple[str, str], list[_Finding]]:
    found: dict[tuple[str, str], list[_Finding]] = defaultdict(list)
    phrases = _phrases()
    seen: set[Path] = set()
    for room in _ROOMS:
        top = root / room
        for file in [top] if top.is_file() else sorted(top.rglob("*")):
            path = file.relative_to(root).as_posix()
            if file.suffix not in _SUFFIXES or file in seen or path.startswith(_SKIPPED) or not file.is_file():
                continue
            seen.add(file)
            for finding in _of_file(path, file.read_text(), phrases):
                found[finding.kind, room].append(finding)
    return found


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


if __name__ == "__main__":
    lower(Path(__file__).parents[2])
