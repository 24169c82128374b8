"""`aes restore`."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from cli.terminal import Json, failures_explained, note, print_json
from deploy.local.errors import StackError

app = typer.Typer(add_completion=False)


@app.command()
def restore(
    folder: Annotated[Path, typer.Argument(help="What aes backup has written.", exists=True, file_okay=False)],
    json_output: Json = False,
) -> None:
    """Put a backup into empty databases and object stores, before anything is started.

    Those that AES_<SERVICE>_DATABASE_URL and AES_<SERVICE>_OBJECTS_URL name, else a new embedded stack in AES_HOME.
    Kafka has to have new topics, or AES_TOPIC_PREFIX another value: what services last published they publish again.
    """
    from cli.backup.places import empty

    with failures_explained(json_output), empty() as places:
        again = _restore(folder, places.databases, places.objects)
    if json_output:
        print_json({"published_again": again})
    else:
        note(f"Restored. {sum(again.values())} events will be published again when the services start.")


def _restore(folder: Path, urls: Mapping[str, str], stores: Mapping[str, str]) -> dict[str, int]:
    from cli.backup import databases
    from cli.backup.manifest import Manifest, dump_file, objects_url
    from cli.backup.objects import copy_all

    manifest = Manifest.read(folder)
    if missing := manifest.migrations.keys() - urls.keys() | manifest.objects.keys() - stores.keys():
        raise StackError(
            f"The backup has data of {', '.join(sorted(missing))}, and no place for them is named.",
            "Set AES_<SERVICE>_DATABASE_URL, and AES_<SERVICE>_OBJECTS_URL for ingestion and artifacts.",
        )
    if filled := [service for service in manifest.migrations if not databases.is_empty(urls[service])]:
        raise StackError(f"The databases of {', '.join(filled)} are not empty.", "Restore into new ones.")
    # The other way round than a backup: no row without its bytes.
    for service in manifest.objects:
        asyncio.run(copy_all(objects_url(folder, service), stores[service]))
    for service in manifest.migrations:
        databases.load(urls[service], dump_file(folder, service))
    return {service: databases.publish_again(urls[service], manifest.started_at) for service in manifest.migrations}
