"""Finds the files to upload."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from deploy.local.errors import StackError

EXTENSIONS = frozenset(
    f".{name}"
    for name in (
        *("pdf", "docx", "doc", "txt", "md", "html", "csv", "xlsx", "xls", "json"),
        *("png", "jpg", "jpeg", "webp", "gif", "bmp"),
    )
)


def find_files(paths: Iterable[Path]) -> tuple[list[Path], list[Path]]:
    """Lists the named files and those in the named folders, and separately files of unsupported types.

    Skips hidden files and folders unless named, and links that lead out of a folder. Raises StackError for a missing
    path.
    """
    taken: dict[Path, None] = {}
    skipped: list[Path] = []
    for path in paths:
        if path.is_file():
            taken[path] = None
        elif path.is_dir():
            for file in _within(path, path.resolve()):
                if file.suffix.lower() in EXTENSIONS:
                    taken[file] = None
                else:
                    skipped.append(file)
        else:
            raise StackError(f"No such file or folder: {path}.")
    return list(taken), skipped


def _within(folder: Path, root: Path) -> Iterator[Path]:
    """Files below the folder. A link may lead to another file below `root`, but not out of it, where nobody means to
    upload from.
    """
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            # Don't follow links to folders: they may form a cycle.
            if not entry.is_symlink():
                yield from _within(entry, root)
        elif entry.is_file() and entry.resolve().is_relative_to(root):
            yield entry
