"""`aes backup`."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli.backup import databases
from cli.backup.manifest import (
    Manifest,
    checksum,
    dump_file,
    inventory_file,
    objects_directory,
    read_inventory,
    write_inventory,
)
from cli.backup.objects import copy_all
from cli.backup.steps import Steps
from cli.backup.targets import running
from cli.doctor.installation import Installation
from cli.terminal import Json, failures_explained, note, print_json

app = typer.Typer(add_completion=False)
_UNFINISHED = "unfinished"


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="Where to write it. A folder that has one is brought up to date.")],
    json_output: Json = False,
) -> None:
    """Write all databases and objects into a folder while everything runs.

    Of the installation that AES_<SERVICE>_DATABASE_URL and AES_<SERVICE>_OBJECTS_URL name, else of the embedded stack.
    """
    with failures_explained(json_output), _for_the_owner_alone():
        manifest = _back_up(running(), folder)
    if json_output:
        print_json({"folder": str(folder), "bytes": manifest.bytes, "objects": manifest.objects})
    else:
        note(f"{sum(manifest.objects.values())} objects and {len(manifest.migrations)} databases are in {folder}.")


def _back_up(installation: Installation, folder: Path) -> Manifest:
    """Writes dumps and inventories beside those of an earlier backup, which they replace when all is written."""
    new = folder / _UNFINISHED
    shutil.rmtree(new, ignore_errors=True)
    for part in ("databases", "objects"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part).chmod(0o700)
        (new / part).mkdir(parents=True)
    first = next(iter(installation.databases.values()))
    try:
        manifest = Manifest(started_at=databases.now(first))
        for service, url in installation.databases.items():
            _write_database(service, url, new, manifest)
        # Objects come after the rows: bytes are written before the row that names them, and outlive it.
        for service, url in installation.objects.items():
            _write_objects(service, url, folder, new, manifest)
        manifest.finished_at = databases.now(first)
        (folder / "manifest.json").unlink(missing_ok=True)
        for written in new.glob("*/*"):
            written.replace(folder / written.relative_to(new))
        manifest.write(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return manifest


def _write_database(service: str, url: str, new: Path, manifest: Manifest) -> None:
    file = dump_file(new, service)
    databases.dump(url, file)
    manifest.migrations[service] = databases.migration(url)
    manifest.dumps[service] = checksum(file)
    manifest.bytes += manifest.dumps[service].size
    note(f"Database of {service}: {manifest.dumps[service].size} bytes")


def _write_objects(service: str, url: str, folder: Path, new: Path, manifest: Manifest) -> None:
    earlier, file = inventory_file(folder, service), inventory_file(new, service)
    known = read_inventory(earlier) if earlier.is_file() else {}
    target = f"file:{objects_directory(folder, service)}"
    objects = copy_all(url, target, known, Steps(f"Objects of {service}"))
    write_inventory(file, objects)
    manifest.inventories[service] = checksum(file)
    manifest.objects[service] = len(objects)
    manifest.bytes += sum(each.size for each in objects.values())


@contextmanager
def _for_the_owner_alone() -> Iterator[None]:
    """Makes every file written meanwhile, by programs too, readable by this user only."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
