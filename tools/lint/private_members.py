"""Forbids the use of libraries' private members."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tools.lint.sources import sources

_LIBRARIES: Final = frozenset(
    {"aiokafka", "faust", "fastapi", "mode", "psycopg", "psycopg_pool", "starlette", "uvicorn"}
)
# Public methods of named tuples. Their underscore only avoids clashes with field names.
_PUBLIC: Final = frozenset({"_asdict", "_fields", "_make", "_replace"})
_INSTEAD: Final = "use the library's public interface"


def findings(root: Path) -> Iterator[str]:
    for path, source in sources(root):
        if path.parts[0] != "tests":
            yield from (f"{path}:{line}: {name}: {_INSTEAD}" for line, name in _private_members(source))


def _private_members(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and name of each private member in a module that imports one of the libraries."""
    tree = ast.parse(source)
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom))
    of_libraries: set[str] = set()
    modules: set[str] = set()
    for imported in imports:
        module = imported.module if isinstance(imported, ast.ImportFrom) else None
        for alias in imported.names:
            name = f"{module}.{alias.name}" if module else alias.name
            bound = alias.asname or alias.name.partition(".")[0]
            if name.partition(".")[0] not in _LIBRARIES or (isinstance(imported, ast.ImportFrom) and imported.level):
                modules.add(bound)
                continue
            of_libraries.add(bound)
            if any(map(_is_private, name.split("."))):
                yield imported.lineno, name
    if not of_libraries:
        return
    own = _own_names(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            of_a_module = isinstance(node.value, ast.Name) and node.value.id in modules
            if node.attr not in own and not of_a_module:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Attribute) and _root(target) in of_libraries:
                    yield node.lineno, f"{ast.unparse(target)} replaced"


def _own_names(tree: ast.Module) -> set[str]:
    """Returns the names that the module defines: attributes of ``self``, functions, classes and fields."""
    own: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                own.add(name)
            case ast.AnnAssign(target=ast.Name(id=name)):
                own.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                own.add(name)
    return own


def _root(node: ast.expr) -> str | None:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in _PUBLIC
