"""`aes backup`."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.backup.manifest import Manifest
from cli.terminal import Json, failures_explained, note, print_json

if TYPE_CHECKING:
    from cli.backup.places import Places

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
    from cli.backup.manifest import dump_file
    from cli.backup.places import running

    places = running()
    new = {service: dump_file(folder, service).with_suffix(".new") for service in places.databases}
    with _for_the_owner_alone():
        for part in ("databases", "objects"):
            (folder / part).mkdir(parents=True, exist_ok=True)
            (folder / part).chmod(0o700)
        try:
            manifest = _write(places, folder, new)
            # Only now is what the folder had before none any more.
            (folder / "manifest.json").unlink(missing_ok=True)
            for service, file in new.items():
                file.replace(dump_file(folder, service))
            manifest.write(folder)
        finally:
            for file in new.values():
                file.unlink(missing_ok=True)
    return manifest


def _write(places: "Places", folder: Path, files: Mapping[str, Path]) -> Manifest:
    from cli.backup import databases
    from cli.backup.manifest import Dump, objects_url
    from cli.backup.objects import copy_all

    first = next(iter(places.databases.values()))
    manifest = Manifest(started_at=databases.now(first))
    for service, url in places.databases.items():
        databases.dump(url, files[service])
        manifest.migrations[service] = databases.migration(url)
        manifest.dumps[service] = Dump.of(files[service])
        manifest.bytes += manifest.dumps[service].size
    # After the rows: bytes are written before the row that names them, and outlive it.
    for service, url in places.objects.items():
        manifest.objects[service], size = asyncio.run(copy_all(url, objects_url(folder, service)))
        manifest.bytes += size
    manifest.finished_at = databases.now(first)
    return manifest


@contextmanager
def _for_the_owner_alone() -> Iterator[None]:
    """What is written meanwhile, also by programs, nobody else can read."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
