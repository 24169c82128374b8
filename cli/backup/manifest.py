"""What is in a backup; written last, so that a folder without it is none."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.files import write_atomically

_FORMAT = 1


@dataclass
class Manifest:
    started_at: str
    finished_at: str = ""
    migrations: dict[str, str] = field(default_factory=dict)
    """By service, of its database; a release that knows them, or a newer one, can go on with it."""
    objects: dict[str, int] = field(default_factory=dict)
    """How many, by service."""
    bytes: int = 0
    """Of databases, packed, and objects."""

    def write(self, folder: Path) -> None:
        write_atomically(folder / "manifest.json", json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n")

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Raises StackError."""
        try:
            document = json.loads((folder / "manifest.json").read_text())
        except FileNotFoundError:
            raise StackError(f"{folder} is no backup that was finished: it has no manifest.json.") from None
        if document.pop("format") != _FORMAT:
            raise StackError(f"{folder} was written by a newer release.", "Restore it with that release.")
        return cls(**document)


def dump_file(folder: Path, service: str) -> Path:
    return folder / "databases" / f"{service}.dump"


def objects_url(folder: Path, service: str) -> str:
    return f"file:{folder.resolve() / 'objects' / service}"
