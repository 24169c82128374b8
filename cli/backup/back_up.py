"""`aes backup`."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.backup.manifest import Manifest
from cli.terminal import Json, failures_explained, note, print_json

if TYPE_CHECKING:
    from cli.backup.targets import BackupTargets

app = typer.Typer(add_completion=False)
Folder = Annotated[Path, typer.Argument(help="Where to write it. A folder that has one is brought up to date.")]


@app.command()
def backup(folder: Folder, json_output: Json = False) -> None:
    """Write all databases and objects into a folder while everything runs.

    Of the installation that AES_<SERVICE>_DATABASE_URL and AES_<SERVICE>_OBJECTS_URL name, else of the embedded stack.
    """
    with failures_explained(json_output):
        manifest = _back_up(folder)
    if json_output:
        print_json({"folder": str(folder), "bytes": manifest.bytes, "objects": manifest.objects})
    else:
        note(f"{sum(manifest.objects.values())} objects and {len(manifest.migrations)} databases are in {folder}.")


def _back_up(folder: Path) -> Manifest:
    from cli.backup.inventory import inventory_file
    from cli.backup.manifest import dump_file
    from cli.backup.targets import running

    targets = running()
    files = [dump_file(folder, service) for service in targets.databases]
    files += [inventory_file(folder, service) for service in targets.objects]
    new = {file: file.with_suffix(".new") for file in files}
    with _for_the_owner_alone():
        for part in ("databases", "objects"):
            (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / part).chmod(0o700)
        try:
            manifest = _write(targets, folder, new)
            # From here on the folder's earlier backup is replaced.
            (folder / "manifest.json").unlink(missing_ok=True)
            for file, written in new.items():
                written.replace(file)
            manifest.write(folder)
        finally:
            for written in new.values():
                written.unlink(missing_ok=True)
    return manifest


def _write(targets: "BackupTargets", folder: Path, new: Mapping[Path, Path]) -> Manifest:
    """Writes databases and objects; ``new`` maps each file of the folder to its temporary path."""
    from cli.backup import databases
    from cli.backup.manifest import Checksum, dump_file

    first = next(iter(targets.databases.values()))
    manifest = Manifest(started_at=databases.now(first))
    for service, url in targets.databases.items():
        file = new[dump_file(folder, service)]
        databases.dump(url, file)
        manifest.migrations[service] = databases.migration(url)
        manifest.dumps[service] = Checksum.of(file)
        manifest.bytes += manifest.dumps[service].size
        note(f"Database of {service}: {manifest.dumps[service].size} bytes")
    # Objects come after the rows: bytes are written before the row that names them, and outlive it.
    for service, url in targets.objects.items():
        _write_objects(service, url, folder, new, manifest)
    manifest.finished_at = databases.now(first)
    return manifest


def _write_objects(service: str, url: str, folder: Path, new: Mapping[Path, Path], manifest: Manifest) -> None:
    from cli.backup import inventory
    from cli.backup.manifest import Checksum, objects_directory
    from cli.backup.objects import copy_all
    from cli.backup.steps import Steps

    file = inventory.inventory_file(folder, service)
    known = inventory.read(file) if file.is_file() else {}
    target = f"file:{objects_directory(folder, service)}"
    objects = copy_all(url, target, known, Steps(f"Objects of {service}"))
    inventory.write(new[file], objects)
    manifest.inventories[service] = Checksum.of(new[file])
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
