"""Selects the packages of requirements.lock that one image needs, with their hashes. Needs nothing but Python.

``python locked_subset.py requirements.lock NEEDED [WITHOUT …] > subset.txt``. NEEDED and WITHOUT are lists of
packages such as ``uv pip compile`` writes; what is in any WITHOUT is left out.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

_PINNED = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


def main() -> None:
    lock, needed, *others = (Path(argument).read_text() for argument in sys.argv[1:])
    without = {package for other in others for package in pinned(other)}
    sys.stdout.write("".join(subset(lock, sorted(pinned(needed) - without))))


def pinned(text: str) -> set[tuple[str, str]]:
    """Name and version of each package of a list."""
    matches = map(_PINNED.match, text.splitlines())
    return {(match[1], match[2]) for match in matches if match}


def subset(lock: str, packages: Iterable[tuple[str, str]]) -> Iterator[str]:
    """The lock's own lines of these packages; raises SystemExit for one that the lock does not have."""
    blocks = dict(_blocks(lock))
    for package in packages:
        if package not in blocks:
            raise SystemExit(f"{'=='.join(package)} is not in the lock: compile it again")
        yield blocks[package]


def _blocks(lock: str) -> Iterator[tuple[tuple[str, str], str]]:
    for block in re.split(r"\n(?=[A-Za-z0-9])", lock.rstrip("\n")):
        match = _PINNED.match(block)
        if match:
            yield (match[1], match[2]), block + "\n"


if __name__ == "__main__":
    main()
