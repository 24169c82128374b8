"""Inventories of a backup's objects with size and checksum: one JSON line per object, one file per service."""

import json
from collections.abc import Mapping
from pathlib import Path

from deploy.local.errors import StackError
from libs.objects import Written


def inventory_file(folder: Path, service: str) -> Path:
    return folder / "objects" / f"{service}.jsonl"


def write(file: Path, objects: Mapping[str, Written]) -> None:
    with file.open("w") as opened:
        for key in sorted(objects):
            line = {"key": key, "size": objects[key].size, "sha256": objects[key].sha256}
            opened.write(json.dumps(line) + "\n")


def read(file: Path) -> dict[str, Written]:
    """Raises StackError."""
    try:
        with file.open() as opened:
            lines = [json.loads(line) for line in opened]
        return {line["key"]: Written(line["size"], line["sha256"]) for line in lines}
    except FileNotFoundError:
        raise StackError(f"{file} is missing.") from None
    except (ValueError, KeyError, TypeError) as problem:
        raise StackError(f"{file} is damaged: {problem}") from problem
