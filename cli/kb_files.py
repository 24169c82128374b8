"""Finds the files to upload."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.local.errors import StackError


def find_files(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Returns the supported and the unsupported files at the paths and below folders.

    Skips hidden files and folders that aren't given explicitly, links to folders, and links to files outside the
    folder. Raises StackError if a path doesn't exist.
    """
    # Imported late, since it takes longer than most commands.
    from libs.contracts.file_types import TYPES

    taken: dict[Path, None] = {}
    skipped: list[Path] = []
    for path in paths:
        if path.is_file():
            taken[path] = None
        elif path.is_dir():
            for file in _within(path, path.resolve()):
                if file.suffix.lower().removeprefix(".") in TYPES:
                    taken[file] = None
                else:
                    skipped.append(file)
        else:
            raise StackError(f"{path} doesn't exist.")
    return list(taken), skipped


def _within(folder: Path, root: Path) -> Iterator[Path]:
    """Yields the files below a folder, except links to files outside `root`, which nobody intends to upload."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            # Links to folders aren't followed, because they may form a cycle.
            if not entry.is_symlink():
                yield from _within(entry, root)
        elif entry.is_file() and entry.resolve().is_relative_to(root):
            yield entry
