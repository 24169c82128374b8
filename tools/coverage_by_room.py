"""Prints the branch coverage of each folder as JSON, from the data of `coverage run`.

    coverage run -m pytest --all        # in the project's environment; writes .coverage.* files
    coverage combine --quiet
    python -m tools.coverage_by_room > benchmarks/results/coverage-DATE.json

A folder is a service, a library, or a top-level folder.
"""

import json
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Final

import coverage

_FIGURES: Final = ("num_statements", "covered_lines", "num_branches", "covered_branches")
_DIVIDED: Final = ("libs", "services")


def main() -> None:
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for file, measured in _measured().items():
        parts = Path(file).parts
        room = "/".join(parts[: 2 if parts[0] in _DIVIDED else 1])
        rooms[room].update({figure: measured["summary"][figure] for figure in _FIGURES})
    rooms["all"] = sum(rooms.values(), Counter())
    lines = [
        json.dumps({"room": room, "percent": _percent(figures), **figures}) for room, figures in sorted(rooms.items())
    ]
    print("[\n " + ",\n ".join(lines) + "\n]")


def _measured() -> dict[str, dict[str, dict[str, int]]]:
    data = coverage.Coverage()
    data.load()
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        data.json_report(outfile=report.name)
        files: dict[str, dict[str, dict[str, int]]] = json.loads(Path(report.name).read_text())["files"]
    return files


def _percent(room: Counter[str]) -> float:
    """Returns the percentage of covered lines and branches, as coverage does."""
    covered = room["covered_lines"] + room["covered_branches"]
    return round(100 * covered / max(1, room["num_statements"] + room["num_branches"]), 1)


if __name__ == "__main__":
    main()
