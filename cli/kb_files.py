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
    """Returns the supported files at the given paths and below the given folders, and the unsupported ones.

    Hidden files and folders are skipped unless they're given explicitly, and so are links that leave a folder. Raises
    StackError for a missing path.
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
    """Yields files below the folder. A link may lead to another file below `root`, but not outside, since nobody
    intends to upload from there.
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
