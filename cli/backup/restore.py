"""`aes restore`."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from cli.backup import databases
from cli.backup.check import checked, checked_objects
from cli.backup.manifest import Manifest, dump_file, objects_directory
from cli.backup.objects import copy_these
from cli.backup.steps import Steps
from cli.backup.targets import check_stopped, empty
from cli.doctor.installation import Installation
from cli.terminal import Json, failures_explained, note, print_json
from deploy.local.errors import StackError
from deploy.local.home import Home
from libs.objects import Written

app = typer.Typer(add_completion=False)
Inventories = Mapping[str, Mapping[str, Written]]


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="What aes backup has written.", exists=True, file_okay=False)],
    json_output: Json = False,
) -> None:
    """Put a backup into empty databases and object stores, before anything is started.

    Those that AES_<SERVICE>_DATABASE_URL and AES_<SERVICE>_OBJECTS_URL name, else a new embedded stack in AES_HOME.
    Kafka has to have new topics, or AES_TOPIC_PREFIX another value: what services last published they publish again.
    """
    with failures_explained(json_output):
        check_stopped()
        manifest = checked(folder)
        objects = checked_objects(folder, manifest)
        with empty() as installation:
            again = _restore(folder, manifest, objects, installation)
    if json_output:
        print_json({"published_again": again})
    else:
        note(f"Restored. {sum(again.values())} events will be published again when the services start.")


def _restore(folder: Path, manifest: Manifest, checked: Inventories, installation: Installation) -> dict[str, int]:
    urls, stores = installation.databases, installation.objects
    if missing := manifest.migrations.keys() - urls.keys() | manifest.objects.keys() - stores.keys():
        raise StackError(
            f"The backup has data of {', '.join(sorted(missing))}, and no place for them is named.",
            "Set AES_<SERVICE>_DATABASE_URL, and AES_<SERVICE>_OBJECTS_URL for ingestion and artifacts.",
        )
    if filled := [service for service in manifest.migrations if not databases.is_empty(urls[service])]:
        raise StackError(f"The databases of {', '.join(filled)} are not empty.", "Restore into new ones.")
    with _in_whole(manifest, installation.home):
        # Objects come before the rows: no row may exist without its bytes.
        _write_objects(folder, checked, stores)
        for service in manifest.migrations:
            databases.load(urls[service], dump_file(folder, service))
        if "gateway" in manifest.migrations:
            databases.forget_positions(urls["gateway"])
        return {service: databases.publish_again(urls[service], manifest.started_at) for service in manifest.migrations}


def _write_objects(folder: Path, checked: Inventories, stores: Mapping[str, str]) -> None:
    for service, objects in checked.items():
        source, steps = f"file:{objects_directory(folder, service)}", Steps(f"Objects of {service}")
        copy_these(source, stores[service], objects, steps)


@contextmanager
def _in_whole(manifest: Manifest, home: Home | None) -> Iterator[None]:
    """Marks the stack as half restored while it lasts: `aes up` refuses it, and a failure says what to do."""
    if home is not None:
        home.restore_marker.touch()
    try:
        yield
    except (StackError, OSError) as problem:
        told = problem.problem if isinstance(problem, StackError) else str(problem)
        what = home.root if home else f"the databases and objects of {', '.join(manifest.migrations)}"
        raise StackError(f"Not restored: {told}", f"Delete {what}, then restore again.") from problem
    if home is not None:
        home.restore_marker.unlink()
