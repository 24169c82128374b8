"""The `aes restore` command."""

import asyncio
import os
from collections.abc import Iterator, Mapping
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import Annotated, Final

import psycopg
import typer

from cli.archive import Manifest, checked, checked_objects, counting, dump_file, objects_directory
from cli.backup import in_order, side_by_side, store_errors_explained, value
from cli.databases import database_errors_explained
from cli.dumps import load
from cli.installation import Installation, find_installation, names_addresses
from cli.terminal import Json, failures_explained, show
from deploy.local.errors import StackError
from deploy.local.foreground import start
from deploy.local.home import Home
from deploy.local.stack import build_stack
from deploy.local.state import StackState
from libs.objects import ObjectMissing, Written, open_store

app = typer.Typer(add_completion=False)
Inventories = Mapping[str, Mapping[str, Written]]
# Covers events published shortly before the backup began, which consumers' earlier dumps may lack.
_SLACK: Final = "1 hour"
_TABLES: Final = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


@app.command()
def restore(
    folder: Annotated[
        Path, typer.Argument(help="Backup folder, written by `aes backup`.", exists=True, file_okay=False)
    ],
    json_output: Json = False,
) -> None:
    """Restore a backup into empty databases and object stores, before services start.

    Restores into the databases and object stores at AES_<SERVICE>_DATABASE_URL and AES_<SERVICE>_OBJECTS_URL, or into a
    new embedded stack in AES_HOME. Services publish their latest events again, so use new topics in Kafka or another
    AES_TOPIC_PREFIX.
    """
    with failures_explained(json_output):
        _check_stopped()
        manifest = checked(folder)
        objects = checked_objects(folder, manifest)
        with _empty_installation() as installation:
            again = _restore(folder, manifest, objects, installation)
    message = f"Restored. Events to be published again when the services start: {sum(again.values())}."
    show(json_output, {"published_again": again}, message)


def _check_stopped() -> None:
    """Raises StackError if the target is an embedded stack that is running."""
    home = Home.from_environment()
    if not names_addresses(os.environ) and StackState.read(home.state_file).is_supervised():
        raise StackError("The embedded stack is running.", "Restore into a new one: set AES_HOME to a new directory.")


@contextmanager
def _empty_installation() -> Iterator[Installation]:
    """Yields the installation to restore into. Raises StackError if it's an embedded stack that is running."""
    if names_addresses(os.environ):
        yield in_order(find_installation())
        return
    _check_stopped()
    home = Home.from_environment()
    home.create()
    postgres = asyncio.run(start(build_stack(home, os.environ).postgres, lambda _: None))
    try:
        yield in_order(find_installation())
    finally:
        postgres.stop()


def _restore(folder: Path, manifest: Manifest, checked: Inventories, installation: Installation) -> dict[str, int]:
    urls, stores = installation.databases, installation.objects
    if missing := manifest.migrations.keys() - urls.keys() | manifest.objects.keys() - stores.keys():
        raise StackError(
            f"The backup contains data of {', '.join(sorted(missing))}, but no target is configured for it.",
            "Set AES_<SERVICE>_DATABASE_URL, and AES_<SERVICE>_OBJECTS_URL for ingestion and artifacts.",
        )
    if filled := [service for service in manifest.migrations if value(service, urls[service], _TABLES)]:
        raise StackError(f"The databases of {', '.join(filled)} aren't empty.", "Restore into new databases.")
    with _in_whole(manifest, installation.home):
        # Objects are restored before rows, since a row must not exist without its object.
        for service, objects in checked.items():
            with store_errors_explained():
                asyncio.run(_put_objects(service, objects_directory(folder, service), stores[service], objects))
        for service in manifest.migrations:
            load(urls[service], dump_file(folder, service))
        return {service: _publish_again(service, urls[service], manifest.started_at) for service in manifest.migrations}


async def _put_objects(service: str, directory: Path, url: str, objects: Mapping[str, Written]) -> None:
    source, target = open_store(f"file:{directory}"), open_store(url)

    async def put(key: str) -> None:
        try:
            async with aclosing(await source.open(key)) as pieces:
                written = await target.put(key, pieces)
        except ObjectMissing:
            raise StackError(f"The object {key} is missing.") from None
        if written != objects[key]:
            raise StackError(f"The object {key} is corrupt.")
        count()

    await target.start()
    with counting(f"Objects of {service}", len(objects)) as count:
        await side_by_side(objects, put)


def _publish_again(service: str, url: str, since: str) -> int:
    """Marks events published after ``since`` as unpublished, so that services publish them again. Returns how many."""
    with database_errors_explained(service, url), psycopg.connect(url) as connection:
        if service == "timeline":
            # The timeline's offsets belong to the old Kafka. The timeline reads the new one from the beginning,
            # recognizes known events by their IDs, and skips them.
            connection.execute("DELETE FROM timeline_offsets")
        found = connection.execute(
            "UPDATE outbox SET published_at = NULL, attempts = 0"
            " WHERE published_at >= %s::timestamptz - %s::interval AND parked_at IS NULL",
            (since, _SLACK),
        )
        return found.rowcount


@contextmanager
def _in_whole(manifest: Manifest, home: Home | None) -> Iterator[None]:
    """Marks the stack as partly restored until the restore succeeds, so that `aes up` refuses to start the stack."""
    if home is not None:
        home.restore_marker.touch()
    try:
        yield
    except (StackError, OSError) as problem:
        reason = problem.problem if isinstance(problem, StackError) else str(problem)
        what = home.root if home else f"the databases and objects of {', '.join(manifest.migrations)}"
        raise StackError(f"The restore failed: {reason}", f"Delete {what}, then restore again.") from problem
    if home is not None:
        home.restore_marker.unlink()
