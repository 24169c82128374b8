"""Copies objects between a store and a directory, several at once, with their checksums."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Final, TypeVar

from cli.backup.manifest import Checksum
from cli.backup.steps import Steps
from deploy.local.errors import StackError
from libs.objects import Entry, ObjectMissing, ObjectStore, StoreUnavailable, Written, open_store

_AT_ONCE: Final = 16
# Reading an object occupies one thread and writing it another, which waits for the first.
_THREADS: Final = 2 * _AT_ONCE + 4
T = TypeVar("T")


def copy_all(source_url: str, target_url: str, known: Mapping[str, Written], steps: Steps) -> dict[str, Written]:
    """Copies objects that the target lacks or has damaged; returns every object of the source.

    ``known``: objects that an earlier copy wrote to the target. Raises StackError.
    """
    source, target = open_store(source_url), open_store(target_url)
    return _run(lambda: _copy_all(source, target, known, steps))


def copy_these(source_url: str, target_url: str, wanted: Mapping[str, Written], steps: Steps) -> None:
    """Copies the named objects. Raises StackError, also for a damaged one."""
    source, target = open_store(source_url), open_store(target_url)
    _run(lambda: _copy_these(source, target, wanted, steps))


def damaged(directory: Path, wanted: Mapping[str, Written], steps: Steps) -> list[str]:
    """Describes the objects of the directory that are missing or damaged."""
    steps.begin(len(wanted))
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        found = pool.map(lambda key: _problem(directory / key, wanted[key], steps), wanted)
        return [f"{key} ({problem})" for key, problem in zip(wanted, found, strict=True) if problem]


def _problem(file: Path, wanted: Written, steps: Steps) -> str:
    try:
        if file.stat().st_size != wanted.size:
            return "of another size"
        digest = Checksum.of(file).sha256
    except FileNotFoundError:
        return "missing"
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    finally:
        steps.done()
    return "" if digest == wanted.sha256 else "damaged"


async def _copy_all(
    source: ObjectStore, target: ObjectStore, known: Mapping[str, Written], steps: Steps
) -> dict[str, Written]:
    await target.start()
    there = {entry.key: entry async for entry in target.entries()}
    wanted = [entry async for entry in source.entries()]
    found: dict[str, Written] = {}

    async def copy(entry: Entry) -> None:
        try:
            written = await _measured(target, entry.key) if _has(there, entry) else None
            # A copy that was damaged since is made again.
            if written is None or known.get(entry.key, written) != written:
                written = await _copy(source, target, entry.key)
            found[entry.key] = written
        except ObjectMissing:
            # The object was deleted meanwhile, and so was, or will be, the row that names it.
            pass

    await _each(wanted, copy, steps)
    return found


async def _copy_these(source: ObjectStore, target: ObjectStore, wanted: Mapping[str, Written], steps: Steps) -> None:
    await target.start()
    there = {entry.key: entry async for entry in target.entries()}
    entries = [entry async for entry in source.entries() if entry.key in wanted]
    if missing := wanted.keys() - {entry.key for entry in entries}:
        raise StackError(f"The object {min(missing)} is missing.")

    async def copy(entry: Entry) -> None:
        if _has(there, entry):
            return
        try:
            written = await _copy(source, target, entry.key)
        except ObjectMissing:
            raise StackError(f"The object {entry.key} is missing.") from None
        if written != wanted[entry.key]:
            raise StackError(f"The object {entry.key} is damaged.")

    await _each(entries, copy, steps)


def _has(there: Mapping[str, Entry], entry: Entry) -> bool:
    same = there.get(entry.key)
    return same is not None and same.size == entry.size and same.written_at >= entry.written_at


async def _copy(source: ObjectStore, target: ObjectStore, key: str) -> Written:
    async with aclosing(await source.open(key)) as pieces:
        return await target.put(key, pieces)


async def _measured(store: ObjectStore, key: str) -> Written:
    digest, size = hashlib.sha256(), 0
    async with aclosing(await store.open(key)) as pieces:
        async for piece in pieces:
            digest.update(piece)
            size += len(piece)
    return Written(size, digest.hexdigest())


async def _each(entries: Iterable[Entry], work: Callable[[Entry], Awaitable[None]], steps: Steps) -> None:
    """Runs several copies at once; the first failure ends all."""
    entries = list(entries)
    steps.begin(len(entries))
    waiting = iter(entries)

    async def take() -> None:
        for entry in waiting:
            await work(entry)
            steps.done()

    async with asyncio.TaskGroup() as group:
        for _ in range(_AT_ONCE):
            group.create_task(take())


def _run(work: Callable[[], Awaitable[T]]) -> T:
    async def run() -> T:
        with ThreadPoolExecutor(_THREADS) as pool:
            asyncio.get_running_loop().set_default_executor(pool)
            return await work()

    try:
        return asyncio.run(run())
    except StoreUnavailable as problem:
        raise StackError(f"Objects: {problem}") from problem
    except BaseExceptionGroup as group:
        first = group.exceptions[0]
        if isinstance(first, StoreUnavailable):
            raise StackError(f"Objects: {first}") from group
        raise first from group
