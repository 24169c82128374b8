"""`aes backup`."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from cli.backup.manifest import Manifest
from cli.terminal import Json, failures_explained, note, print_json

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
    from cli.backup import databases
    from cli.backup.manifest import dump_file, objects_url
    from cli.backup.objects import copy_all
    from cli.backup.places import running

    places = running()
    first = next(iter(places.databases.values()))
    (folder / "databases").mkdir(parents=True, exist_ok=True)
    # From here on the old one is none any more.
    (folder / "manifest.json").unlink(missing_ok=True)
    manifest = Manifest(started_at=databases.now(first))
    for service, url in places.databases.items():
        databases.dump(url, dump_file(folder, service))
        manifest.migrations[service] = databases.migration(url)
        manifest.bytes += dump_file(folder, service).stat().st_size
    # After the rows: bytes are written before the row that names them, and outlive it.
    for service, url in places.objects.items():
        manifest.objects[service], size = asyncio.run(copy_all(url, objects_url(folder, service)))
        manifest.bytes += size
    manifest.finished_at = databases.now(first)
    manifest.write(folder)
    return manifest
