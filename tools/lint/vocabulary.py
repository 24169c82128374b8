"""Forbids names in `retired_names.toml`, and docstrings that begin with a relative clause."""

import ast
import io
import re
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from tools.lint.sources import sources

_NAME: Final = re.compile(r"[^\W\d]\w*")
_WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
# These words are allowed as parts of other names, such as `lease_keeper`, `is_origin` or `dead_letters`. Names in
# strings aren't checked.
_WHOLE_ONLY: Final = frozenset(
    {"Box", "Dispatch", "Ending", "Exchange", "Holder", "Incoming", "Keeper", "Leaving", "Letter", "Origin", "Outside"}
    | {"Phases", "Places", "Recent", "Shares", "Transfers", "_Passing", "_PASSING", "_first_word", "_refusal", "lanes"}
    | {"WatchTurns", "_replacements", "_tell", "_told", "neighbours", "one_of", "outlast", "strangers", "translated"}
)
# A relative clause at the beginning hides the subject.
_OPENING: Final = re.compile(
    r"\s*(?:(?:How|Of|That|Those|What|Whatever|Where|Which|Who|Whoever|Whom|Whose)\b"
    r"|(?:All|Any|Anybody|Anyone|Anything|Everybody|Everyone|Everything|Nothing|One|Ones|Somebody|Something|The ones?)"
    r" (?:that|which|who|whom|whose)\b)"
)


def findings(root: Path) -> Iterator[str]:
    retired: dict[str, str] = tomllib.loads(Path(__file__).with_name("retired_names.toml").read_text())
    for path, source in sources(root):
        if path.stem in retired:
            yield f"{path}: the file's name: {retired[path.stem]}"
        yield from _retired_names(path, source, retired)
        yield from _relative_clauses(path, source)


def _retired_names(path: Path, source: str, retired: Mapping[str, str]) -> Iterator[str]:
    by_words = {_words(name): instead for name, instead in retired.items() if name not in _WHOLE_ONLY}
    found = {name: instead for name in set(_NAME.findall(source)) if (instead := _instead(name, retired, by_words))}
    if not found:
        return
    # Tokens distinguish names from words in strings and comments, but take much longer.
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string in found:
            yield f"{path}:{token.start[0]}: {token.string}: {found[token.string]}"


def _instead(name: str, retired: Mapping[str, str], by_words: Mapping[tuple[str, ...], str]) -> str | None:
    # The name of a test is a sentence.
    if name in retired or name.startswith("test_"):
        return retired.get(name)
    words = _words(name)
    parts = (words[first:last] for first in range(len(words)) for last in range(first + 1, len(words) + 1))
    return next((by_words[part] for part in parts if part in by_words), None)


@cache
def _words(name: str) -> tuple[str, ...]:
    """Returns the lowercase words of a snake_case or CamelCase name without a final ``s``."""
    return tuple(word.lower().removesuffix("s") for word in _WORD.findall(name))


def _relative_clauses(path: Path, source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            text = node.value.value
            if _OPENING.match(text):
                yield f"{path}:{node.lineno}: begins with a relative clause: {text.strip()[:60]}"
