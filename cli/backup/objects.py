"""Copies objects between a store and a directory, several at once, with their checksums."""

import asyncio
import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Final

from cli.backup.manifest import checksum
from cli.backup.steps import Steps
from deploy.local.errors import StackError
from libs.contracts.errors import StoreUnavailable
from libs.objects import Entry, ObjectMissing, ObjectStore, Written, open_store

_AT_ONCE: Final = 16
# Reading an object occupies one thread and writing it another, which waits for the first.
_THREADS: Final = 2 * _AT_ONCE + 4


def copy_all(source_url: str, target_url: str, known: Mapping[str, Written], steps: Steps) -> dict[str, Written]:
    """Copies objects that the target lacks or has damaged; returns every object of the source.

    ``known``: objects that an earlier copy wrote to the target. Raises StackError.
    """
    return _run(_Copying(open_store(source_url), open_store(target_url), known, steps))


def copy_these(source_url: str, target_url: str, wanted: Mapping[str, Written], steps: Steps) -> None:
    """Copies the named objects. Raises StackError, also for a missing or damaged one."""
    _run(_Copying(open_store(source_url), open_store(target_url), wanted, steps, only_known=True))


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
        return "" if checksum(file) == wanted else "damaged"
    except FileNotFoundError:
        return "missing"
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    finally:
        steps.done()


class _Copying:
    """One copy of a store: of all its objects, or with ``only_known`` of exactly those, as they are known."""

    def __init__(
        self,
        source: ObjectStore,
        target: ObjectStore,
        known: Mapping[str, Written],
        steps: Steps,
        only_known: bool = False,
    ) -> None:
        self._source, self._target, self._known, self._steps = source, target, known, steps
        self._only_known = only_known
        self._there: dict[str, Entry] = {}
        self._found: dict[str, Written] = {}

    async def run(self) -> dict[str, Written]:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_THREADS))
        await self._target.start()
        self._there = {entry.key: entry async for entry in self._target.entries()}
        entries = [each async for each in self._source.entries() if not self._only_known or each.key in self._known]
        if self._only_known and (missing := self._known.keys() - {entry.key for entry in entries}):
            raise StackError(f"The object {min(missing)} is missing.")
        self._steps.begin(len(entries))
        waiting = iter(entries)

        async def take() -> None:
            for entry in waiting:
                await self._copy(entry)
                self._steps.done()

        # The first failure ends all: the others are cancelled with the loop.
        await asyncio.gather(*(take() for _ in range(_AT_ONCE)))
        return self._found

    async def _copy(self, entry: Entry) -> None:
        key, there = entry.key, self._there.get(entry.key)
        try:
            written = None
            if there is not None and there.size == entry.size and there.written_at >= entry.written_at:
                written = await self._measured(key)
            # A copy that was damaged since is made again.
            if written is None or self._known.get(key, written) != written:
                async with aclosing(await self._source.open(key)) as pieces:
                    written = await self._target.put(key, pieces)
        except ObjectMissing:
            if self._only_known:
                raise StackError(f"The object {key} is missing.") from None
            # The object was deleted meanwhile, and so was, or will be, the row that names it.
            return
        if self._only_known and written != self._known[key]:
            raise StackError(f"The object {key} is damaged.")
        self._found[key] = written

    async def _measured(self, key: str) -> Written:
        digest, size = hashlib.sha256(), 0
        async with aclosing(await self._target.open(key)) as pieces:
            async for piece in pieces:
                digest.update(piece)
                size += len(piece)
        return Written(size, digest.hexdigest())


def _run(copying: _Copying) -> dict[str, Written]:
    try:
        return asyncio.run(copying.run())
    except StoreUnavailable as problem:
        raise StackError(f"Objects: {problem}") from problem
