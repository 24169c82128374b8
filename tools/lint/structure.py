"""Checks names and imports of files, lengths of functions, and that FastAPI doesn't call functions in threads."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.lint.sources import sources

_JUNK_DRAWERS: Final = frozenset({"common", "core", "helpers", "misc", "utils"})
_MOST_LINES: Final = 60
_SERVED: Final = ("services", "libs")
_DEPENDENCY: Final = re.compile(r"\b(?:Depends|Security)\(\s*(\w+)")
_NEEDS_TESTS: Final = re.compile(r"\btests\.(\w+)")
_NEEDS_BENCHMARKS: Final = re.compile(r"^\s*(?:from|import) benchmarks\b", re.MULTILINE)

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def findings(root: Path) -> Iterator[str]:
    dependencies: set[str] = set()
    plain: dict[str, str] = {}
    for path, source in sources(root):
        if {path.stem, *path.parent.parts} & _JUNK_DRAWERS:
            yield f"{path}: the name doesn't describe the content; name the file after its content"
        yield from _between_tests_and_benchmarks(path, source)
        if path.parts[0] == "tests":
            continue
        is_served = path.parts[0] in _SERVED
        for node in _functions(ast.parse(source)):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > _MOST_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {lines} lines, at most {_MOST_LINES}"
            if is_served and isinstance(node, ast.FunctionDef):
                plain[node.name] = f"{path}:{node.lineno}"
                if any(ast.unparse(each).startswith(("router.", "app.")) for each in node.decorator_list):
                    dependencies.add(node.name)
        if is_served:
            dependencies |= set(_DEPENDENCY.findall(source))
    for name in sorted(dependencies & plain.keys()):
        yield f"{plain[name]}: {name} isn't a coroutine, so FastAPI calls it in a thread and doubles a request's time"


def _functions(node: ast.AST) -> Iterator[_Function]:
    """Yields the functions below a node, except those in expressions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield child
        if not isinstance(child, ast.expr):
            yield from _functions(child)


def _between_tests_and_benchmarks(path: Path, source: str) -> Iterator[str]:
    """Checks that benchmarks import only `tests.servers`, and that only their own tests import benchmarks."""
    if path.parts[0] == "benchmarks":
        for needed in sorted(set(_NEEDS_TESTS.findall(source)) - {"servers"}):
            yield f"{path}: tests.{needed}: benchmarks can import only tests.servers from the tests"
    elif path.parts[0] == "tests" and "benchmarks" not in path.parts and _NEEDS_BENCHMARKS.search(source):
        yield f"{path}: only tests of benchmarks can import benchmarks"
