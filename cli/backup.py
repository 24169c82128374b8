"""The `aes backup` command."""

import asyncio
import os
import shutil
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final, LiteralString, TypeVar

import psycopg
import typer

from cli.archive import (
    AT_ONCE,
    Manifest,
    checksum,
    counting,
    dump_file,
    inventory_file,
    objects_directory,
    read_inventory,
    write_inventory,
)
from cli.databases import database_errors_explained
from cli.dumps import dump
from cli.installation import Installation, running_installation
from cli.terminal import Json, failures_explained, note, show
from deploy.local.errors import StackError
from libs.contracts.errors import StoreUnavailable
from libs.objects import Entry, ObjectMissing, ObjectStore, Written, open_store

T = TypeVar("T")
app = typer.Typer(add_completion=False)
# Consumers are dumped before producers. After a restore, producers publish the events in between again.
ORDER: Final = ("timeline", "artifacts", "ingestion", "runtime", "registry", "gateway")
_UNFINISHED: Final = "unfinished"
_NOW: Final = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')"
# Copying an object takes two threads: one reads, and the other writes and waits for the first.
_THREADS: Final = 2 * AT_ONCE + 4


@app.command()
def backup(
    folder: Annotated[Path, typer.Argument(help="Target folder. An existing backup there is updated.")],
    json_output: Json = False,
) -> None:
    """Back up all databases and objects to a folder while the service runs.

    Backs up the databases and object stores at AES_<SERVICE>_DATABASE_URL and AES_<SERVICE>_OBJECTS_URL, or those of
    the embedded stack.
    """
    with failures_explained(json_output), _for_the_owner_alone():
        manifest = _back_up(in_order(running_installation()), folder)
    document = {"folder": str(folder), "bytes": manifest.bytes, "objects": manifest.objects}
    kept = f"databases: {len(manifest.migrations)}, objects: {sum(manifest.objects.values())}"
    show(json_output, document, f"Backed up to {folder} ({kept}).")


def in_order(found: Installation) -> Installation:
    """Returns the installation, with its databases sorted by ``ORDER``. Raises StackError if it has no databases."""
    databases = {service: found.databases[service] for service in ORDER if service in found.databases}
    if not databases:
        raise StackError("No database is configured.", "Set AES_<SERVICE>_DATABASE_URL for every service.")
    return replace(found, databases=databases)


def value(service: str, url: str, statement: LiteralString) -> object:
    """Runs a query and returns its single value. Raises StackError if the query fails."""
    with database_errors_explained(service, url), psycopg.connect(url, autocommit=True, connect_timeout=10) as opened:
        row = opened.execute(statement).fetchone()
    return row[0] if row else None


async def side_by_side(entries: Iterable[T], work: Callable[[T], Awaitable[None]]) -> None:
    """Calls ``work`` for every entry, several at a time. The first failure cancels the others."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
    waiting = iter(entries)

    async def take() -> None:
        for entry in waiting:
            await work(entry)

    await asyncio.gather(*(take() for _ in range(AT_ONCE)))


@contextmanager
def store_errors_explained() -> Iterator[None]:
    try:
        yield
    except StoreUnavailable as problem:
        raise StackError(f"Couldn't read or write objects: {problem}") from problem


def _back_up(installation: Installation, folder: Path) -> Manifest:
    """Writes new dumps and inventories to temporary files, which replace those of an earlier backup at the end."""
    new = folder / _UNFINISHED
    shutil.rmtree(new, ignore_errors=True)
    for part in ("databases", "objects"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        (folder / part).chmod(0o700)
        (new / part).mkdir(parents=True)
    first = next(iter(installation.databases.items()))
    try:
        manifest = Manifest(started_at=str(value(*first, _NOW)))
        for service, url in installation.databases.items():
            _write_database(service, url, new, manifest)
        # Objects are copied after rows are dumped, since an object is written before its row and deleted after it.
        for service, url in installation.objects.items():
            _write_objects(service, url, folder, new, manifest)
        manifest.finished_at = str(value(*first, _NOW))
        (folder / "manifest.json").unlink(missing_ok=True)
        for written in new.glob("*/*"):
            written.replace(folder / written.relative_to(new))
        manifest.write(folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    return manifest


def _write_database(service: str, url: str, new: Path, manifest: Manifest) -> None:
    file = dump_file(new, service)
    dump(url, file)
    manifest.migrations[service] = str(value(service, url, "SELECT version_num FROM alembic_version"))
    manifest.dumps[service] = checksum(file)
    manifest.bytes += manifest.dumps[service].size
    note(f"Database of {service}: {manifest.dumps[service].size} bytes")


def _write_objects(service: str, url: str, folder: Path, new: Path, manifest: Manifest) -> None:
    earlier, file = inventory_file(folder, service), inventory_file(new, service)
    known = read_inventory(earlier) if earlier.is_file() else {}
    with store_errors_explained():
        objects = asyncio.run(_copied(service, open_store(url), objects_directory(folder, service), known))
    write_inventory(file, objects)
    manifest.inventories[service] = checksum(file)
    manifest.objects[service] = len(objects)
    manifest.bytes += sum(each.size for each in objects.values())


async def _copied(
    service: str, source: ObjectStore, directory: Path, known: Mapping[str, Written]
) -> dict[str, Written]:
    """Copies new and corrupt objects. Returns all objects. ``known`` contains those of an earlier backup."""
    target = open_store(f"file:{directory}")
    await target.start()
    there = {entry.key: entry async for entry in target.entries()}
    found: dict[str, Written] = {}

    async def copy(entry: Entry) -> None:
        key, copied, written = entry.key, there.get(entry.key), None
        if copied is not None and copied.size == entry.size and copied.written_at >= entry.written_at:
            written = await asyncio.to_thread(checksum, directory / key)
        # A corrupt copy is replaced.
        if written is None or known.get(key, written) != written:
            try:
                async with aclosing(await source.open(key)) as pieces:
                    written = await target.put(key, pieces)
            except ObjectMissing:
                # Deleted in the meantime. The object's row is or will be deleted, too.
                return
        found[key] = written
        count()

    entries = [entry async for entry in source.entries()]
    with counting(f"Objects of {service}", len(entries)) as count:
        await side_by_side(entries, copy)
    return found


@contextmanager
def _for_the_owner_alone() -> Iterator[None]:
    """Makes new files readable only by this user. This includes the files of child processes."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)
