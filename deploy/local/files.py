"""Reads and writes files of the embedded stack, and checks the disk space."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from deploy.local.errors import StackError


def write_atomically(path: Path, text: str, mode: int = 0o644) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any]:
    """Returns an empty object if the file is missing or invalid."""
    try:
        document = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return {}
    return document if isinstance(document, dict) else {}


def tail(path: Path, lines: int, most_bytes: int = 256 * 1024, since: int = 0) -> list[str]:
    """Returns the last lines of a log file, starting at byte `since`, or no lines if the file doesn't exist."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        skipped = max(since, path.stat().st_size - most_bytes)
        file.seek(skipped)
        found = file.read().decode(errors="replace").splitlines()
    # The starting byte is rarely at the start of a line.
    return found[1 if skipped > since else 0 :][-lines:] if lines else []


def check_disk(directory: Path, needed: int) -> None:
    free = shutil.disk_usage(directory).free
    if free < needed:
        raise StackError(
            f"Not enough disk space in {directory}: {free >> 20} MiB free, {needed >> 20} MiB needed.",
            "Free some space, or set AES_HOME to a directory on a larger disk.",
        )
