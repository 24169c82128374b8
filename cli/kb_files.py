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
    """Lists the named files and those in the named folders, and apart from them files of unsupported kinds.

    Hidden files and folders are skipped unless named, and so are links out of a folder. Raises StackError for a path
    that does not exist.
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
            raise StackError(f"There is no file or folder {path}.")
    return list(taken), skipped


def _within(folder: Path, root: Path) -> Iterator[Path]:
    """Files below the folder. A link may lead to another file below `root`, but not out of it: its target may be
    nothing that somebody means to upload.
    """
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            # Links to folders are not followed: they may form a cycle.
            if not entry.is_symlink():
                yield from _within(entry, root)
        elif entry.is_file() and entry.resolve().is_relative_to(root):
            yield entry
