"""Finds the Python files that the rules check."""

from collections.abc import Iterator
from pathlib import Path

_ROOMS = ("services", "libs", "cli", "deploy", "benchmarks", "examples", "clients", "tests", "tools")


def sources(root: Path) -> Iterator[tuple[Path, str]]:
    """Yields each file's path below the root, and its text."""
    for room in _ROOMS:
        for file in sorted((root / room).rglob("*.py")):
            yield file.relative_to(root), file.read_text()
