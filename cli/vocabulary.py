"""Checks names and docstrings: no name that `docs/glossary.md` lists as retired, no docstring without its subject."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_ROOMS: Final = ("services", "libs", "cli", "deploy", "benchmarks", "examples", "tests")
_RETIRED: Final = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)
_FIRST_WORD: Final = re.compile(r"\s*(\w+)")
# These begin a relative clause, which leaves out what the thing is.
_OPENINGS: Final = frozenset(
    {"How", "Of", "That", "Those", "What", "Whatever", "Where", "Which", "Who", "Whoever", "Whom", "Whose"}
)


def findings(root: Path) -> Iterator[str]:
    retired = dict(_RETIRED.findall((root / "docs" / "glossary.md").read_text().partition("## Retired names")[2]))
    for room in _ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            source, place = file.read_text(), file.relative_to(root)
            if file.stem in retired:
                yield f"{place}: the file's name: {retired[file.stem]}"
            yield from _retired_names(place, source, retired)
            yield from _relative_clauses(place, source)


def _retired_names(place: Path, source: str, retired: Mapping[str, str]) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in retired:
            yield f"{place}:{token.start[0]}: {token.string}: {retired[token.string]}"


def _relative_clauses(place: Path, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value
            if (first := _FIRST_WORD.match(text)) and first[1] in _OPENINGS:
                yield f"{place}:{node.lineno}: begins with a relative clause: {text.strip()[:60]}"


def main() -> int:
    found = list(findings(Path(__file__).parents[1]))
    print("\n".join(found) if found else "Names and docstrings keep to the vocabulary.")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
