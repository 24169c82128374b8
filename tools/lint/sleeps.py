"""Forbids sleeps in tests. A test that waits for a fixed time instead of an event can be flaky."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tools.lint.sources import sources

_WAITING: Final = "tests/support/waiting.py"
_INSTEAD: Final = (
    "wait for the event (`until`, `wait_until`), for a later one (`never`), or in virtual time (`elapse`): "
    f"see {_WAITING}"
)
_IN_BROWSERS: Final = "poll for the condition (`page.wait_for_function`, `expect(…)`, a script's `eventually`)"
_MODULES: Final = frozenset({"anyio", "asyncio", "gevent", "time", "trio"})
# A call with a number in a script's source, such as `await sleep(20)`. `pg_sleep` is PostgreSQL's.
_IN_SCRIPTS: Final = re.compile(r"(?<!\w)sleep\(\s*(?!0(?:\.0*)?\s*\))\.?\d|setTimeout\(\s*\w+,\s*[1-9]")
_STAYS_ALIVE: Final = "a process whose script must stay alive until the test stops it"
_PACED: Final = "runs only on request, for about an hour, with a steady load, and watches a cluster from outside"
_EXCEPTED: Final[Mapping[str, str]] = {
    _WAITING: "the only place that waits for tests",
    "tests/cluster": _PACED,
    "tests/outages": _PACED,
    "tests/rolling_restart": _PACED,
}
_EXCEPTED_SCRIPTS: Final[Mapping[str, str]] = {
    "tests/integration/deploy_local/conftest.py": _STAYS_ALIVE,
    "tests/integration/deploy_local/test_process_supervisor.py": _STAYS_ALIVE,
    "tests/integration/objects/test_object_stores.py": _STAYS_ALIVE,
    "tests/unit/lint/test_code.py": "examples of this rule's findings",
}


def findings(root: Path) -> Iterator[str]:
    for path, source in sources(root):
        if path.parts[0] == "tests" and not any(map(path.is_relative_to, _EXCEPTED)):
            yield from _sleeps(path.as_posix(), source, scripts=path.as_posix() not in _EXCEPTED_SCRIPTS)


def _sleeps(path: str, source: str, *, scripts: bool) -> Iterator[str]:
    tree = ast.parse(source)
    modules, names = _imported(tree)
    yielding = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_zero(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "wait_for_timeout":
            yield f"{path}:{node.lineno}: wait_for_timeout: {_IN_BROWSERS}"
        elif isinstance(node, ast.expr) and (name := _sleep(node, modules, names)) and id(node) not in yielding:
            yield f"{path}:{node.lineno}: {name}: {_INSTEAD}"
        elif scripts and isinstance(node, ast.Constant) and isinstance(node.value, str):
            for found in _IN_SCRIPTS.finditer(node.value):
                # A multi-line constant starts at its first line, and a script is indented like the code around it.
                line = node.lineno + node.value.count("\n", 0, found.start())
                yield f"{path}:{line}: {found[0]}…) in a script: {_IN_BROWSERS}"


def _imported(tree: ast.AST) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Returns the imported modules with a `sleep`, and the imported `sleep` functions, by name in the file."""
    modules: dict[str, str] = {}
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules |= {alias.asname or alias.name: alias.name for alias in node.names if alias.name in _MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES:
            found = {alias.asname or alias.name: alias.name for alias in node.names}
            names |= {name: f"{node.module}.sleep" for name, original in found.items() if original == "sleep"}
    return modules, names


def _sleep(node: ast.expr, modules: Mapping[str, str], names: Mapping[str, str]) -> str | None:
    if isinstance(node, ast.Attribute) and node.attr.startswith("sleep") and isinstance(node.value, ast.Name):
        return f"{modules[node.value.id]}.{node.attr}" if node.value.id in modules else None
    return names.get(node.id) if isinstance(node, ast.Name) else None


def _is_zero(call: ast.Call) -> bool:
    """Returns whether the call only lets other tasks run, as `sleep(0)` does."""
    first = call.args[0] if call.args else None
    return isinstance(first, ast.Constant) and first.value == 0
