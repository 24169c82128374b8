"""The files of a backup: dumps, objects, inventories and the manifest. A backup is complete once it has a manifest."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from cli.terminal import note
from deploy.local.errors import StackError
from deploy.local.files import write_atomically
from libs.contracts.errors import dotted_path
from libs.objects import Written

AT_ONCE = 16
_FORMAT = 1
_REMEDY = "Use another backup."
_NAMED = 20


@dataclass
class Manifest:
    started_at: str
    finished_at: str = ""
    migrations: dict[str, str] = field(default_factory=dict)
    """Migration revision of each service's database. Restoring requires a release that includes all revisions."""
    dumps: dict[str, Written] = field(default_factory=dict)
    """Checksums of the dumps, by service."""
    objects: dict[str, int] = field(default_factory=dict)
    """Number of objects, by service."""
    inventories: dict[str, Written] = field(default_factory=dict)
    """Checksums of the inventories, by service."""
    bytes: int = 0
    """Total size of the compressed dumps and the objects."""

    def write(self, folder: Path) -> None:
        text = json.dumps({"format": _FORMAT, **asdict(self)}, indent=2) + "\n"
        write_atomically(folder / "manifest.json", text, mode=0o600)

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """Raises StackError if the manifest is missing or corrupt, or has an unsupported format."""
        file = folder / "manifest.json"
        try:
            return cls._parsed(file.read_text(), folder)
        except FileNotFoundError:
            raise StackError(f"{folder} isn't a complete backup: manifest.json is missing.") from None
        except ValueError as problem:
            raise StackError(f"{file} is corrupt: {problem}", _REMEDY) from problem

    @classmethod
    def _parsed(cls, text: str, folder: Path) -> "Manifest":
        document = json.loads(text)
        version = document.get("format") if isinstance(document, dict) else None
        if type(version) is not int or version < 1:
            raise ValueError("the format number is missing")
        if version != _FORMAT:
            raise StackError(
                f"{folder} has backup format {version}. This release reads only format {_FORMAT}.",
                "Restore it with the release that created it.",
            )
        try:
            manifest = TypeAdapter(cls).validate_json(text, strict=True)
        except ValidationError as problem:
            first = problem.errors()[0]
            raise ValueError(f"{dotted_path(first['loc'])}: {first['msg']}") from None
        datetime.fromisoformat(manifest.started_at)
        if not (manifest.migrations and manifest.finished_at):
            raise ValueError("fields are missing")
        if manifest.dumps.keys() != manifest.migrations.keys():
            raise ValueError("a database's dump is missing")
        if manifest.inventories.keys() != manifest.objects.keys():
            raise ValueError("a service's inventory is missing")
        return manifest


def dump_file(folder: Path, service: str) -> Path:
    return folder / "databases" / f"{service}.dump"


def objects_directory(folder: Path, service: str) -> Path:
    return folder.resolve() / "objects" / service


def inventory_file(folder: Path, service: str) -> Path:
    """Returns the path of a service's inventory, which has one line of JSON per object."""
    return folder / "objects" / f"{service}.jsonl"


def write_inventory(file: Path, objects: Mapping[str, Written]) -> None:
    with file.open("w") as opened:
        for key in sorted(objects):
            opened.write(json.dumps({"key": key, **asdict(objects[key])}) + "\n")


def read_inventory(file: Path) -> dict[str, Written]:
    """Reads an inventory. Raises StackError if it's corrupt."""
    try:
        with file.open() as opened:
            return {line.pop("key"): Written(**line) for line in map(json.loads, opened)}
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise StackError(f"{file} is corrupt: {problem}") from problem


def checksum(file: Path) -> Written:
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256")
        return Written(opened.tell(), digest.hexdigest())


def checked(folder: Path) -> Manifest:
    """Returns the manifest. Raises StackError if the manifest or a dump is missing or corrupt."""
    manifest = Manifest.read(folder)
    for service in manifest.migrations:
        _check(dump_file(folder, service), manifest.dumps[service])
    return manifest


def checked_objects(folder: Path, manifest: Manifest) -> dict[str, dict[str, Written]]:
    """Returns every service's inventory. Raises StackError if objects are missing or corrupt."""
    found = {}
    for service, expected in manifest.inventories.items():
        file = inventory_file(folder, service)
        _check(file, expected)
        found[service] = read_inventory(file)
        if problems := _corrupt(objects_directory(folder, service), found[service], service):
            more = f" and {len(problems) - _NAMED} more" if len(problems) > _NAMED else ""
            named = f"({len(problems)} of {len(found[service])}): {', '.join(problems[:_NAMED])}{more}"
            raise StackError(f"Objects of {service} are missing or corrupt {named}.", _REMEDY)
    return found


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[], None]]:
    """Shows a progress bar on a terminal. Yields a thread-safe function to call once per object."""
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bar = progress.add_task(what, total=total)
        yield lambda: progress.advance(bar)
    note(f"{what}: {total}")


def _check(file: Path, expected: Written) -> None:
    if not file.is_file():
        raise StackError(f"{file} is missing.", _REMEDY)
    if checksum(file) != expected:
        raise StackError(f"{file} is corrupt: its size or checksum differs from the manifest's.", _REMEDY)


def _corrupt(directory: Path, wanted: Mapping[str, Written], service: str) -> list[str]:
    """Returns the missing and corrupt objects in the directory, each with the reason."""

    def problem(key: str) -> str:
        file = directory / key
        try:
            if file.stat().st_size != wanted[key].size:
                return "wrong size"
            return "" if checksum(file) == wanted[key] else "corrupt"
        except FileNotFoundError:
            return "missing"
        except OSError as error:
            return f"unreadable: {error.strerror}"
        finally:
            count()

    with counting(f"Checked objects of {service}", len(wanted)) as count, ThreadPoolExecutor(AT_ONCE) as pool:
        return [f"{key} ({found})" for key, found in zip(wanted, pool.map(problem, wanted), strict=True) if found]
