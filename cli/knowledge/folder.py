"""Finds the files to be uploaded."""

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
    """The files that are named or lie in the folders that are named, and those among them of other kinds.

    Hidden files and folders are passed over, a file that is named is always taken. Raises StackError for a path
    that does not exist.
    """
    taken: dict[Path, None] = {}
    skipped: list[Path] = []
    for path in paths:
        if path.is_file():
            taken[path] = None
        elif path.is_dir():
            for file in _within(path):
                if file.suffix.lower() in EXTENSIONS:
                    taken[file] = None
                else:
                    skipped.append(file)
        else:
            raise StackError(f"There is no file or folder {path}.")
    return list(taken), skipped


def _within(folder: Path) -> Iterator[Path]:
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            # A link to a folder may lead round in a circle.
            if not entry.is_symlink():
                yield from _within(entry)
        elif entry.is_file():
            yield entry
