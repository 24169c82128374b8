"""What is in a backup; written last, so that a folder without it is none."""

import hashlib
import json
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from deploy.local.errors import StackError
from deploy.local.files import write_atomically

_FORMAT = 3
# The first knows nothing of single dumps, the second nothing of single objects.
_WITH_OBJECTS = 3
_WITH_DUMPS = 2
_FIRST_FORMAT = 1


@dataclass(frozen=True)
class Checksum:
    size: int
    sha256: str

    @classmethod
    def of(cls, file: Path) -> "Checksum":
        with file.open("rb") as opened:
            digest = hashlib.file_digest(opened, "sha256")
        return cls(file.stat().st_size, digest.hexdigest())


@dataclass
class Manifest:
    started_at: str
    finished_at: str = ""
    migrations: dict[str, str] = field(default_factory=dict)
    """By service, of its database; a release that knows them, or a newer one, can go on with it."""
    dumps: dict[str, Checksum] = field(default_factory=dict)
    """By service; empty in the first format."""
    objects: dict[str, int] = field(default_factory=dict)
    """How many, by service."""
    inventories: dict[str, Checksum] = field(default_factory=dict)
    """By service, of the file that names its objects; empty in the first two formats."""
    bytes: int = 0
    """Of databases, packed, and objects."""

    def write(self, folder: Path) -> None:
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n"
        write_atomically(folder / "manifest.json", text, mode=0o600)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Raises StackError."""
        file = folder / "manifest.json"
        try:
            return cls._parsed(file.read_text(), folder)
        except FileNotFoundError:
            raise StackError(f"{folder} is no backup that was finished: it has no manifest.json.") from None
        except ValueError as problem:
            raise StackError(f"{file} is damaged: {problem}", "Restore another backup.") from problem

    @classmethod
    def _parsed(cls, text: str, folder: Path) -> "Manifest":
        from pydantic import TypeAdapter, ValidationError

        document = json.loads(text)
        version = document.get("format") if isinstance(document, dict) else None
        if type(version) is not int or version < _FIRST_FORMAT:
            raise ValueError("it names no format")
        if version > _FORMAT:
            raise StackError(f"{folder} was written by a newer release.", "Restore it with that release.")
        try:
            manifest = TypeAdapter(cls).validate_json(text, strict=True)
        except ValidationError as problem:
            first = problem.errors()[0]
            raise ValueError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from None
        datetime.fromisoformat(manifest.started_at)
        if not (manifest.migrations and manifest.finished_at):
            raise ValueError("it is not complete")
        if version >= _WITH_DUMPS and manifest.dumps.keys() != manifest.migrations.keys():
            raise ValueError("not every database has a dump")
        if version >= _WITH_OBJECTS and manifest.inventories.keys() != manifest.objects.keys():
            raise ValueError("not every service's objects are listed")
        return manifest


def dump_file(folder: Path, service: str) -> Path:
    return folder / "databases" / f"{service}.dump"


def objects_directory(folder: Path, service: str) -> Path:
    return folder.resolve() / "objects" / service
