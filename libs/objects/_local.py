"""An object store in a directory."""

import asyncio
import fcntl
import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO, Final, ParamSpec, TypeVar

from libs.contracts.errors import StoreUnavailable
from libs.contracts.identifiers import new_id
from libs.objects._store import (
    PIECE_BYTES,
    Entry,
    ObjectMissing,
    Pieces,
    Written,
    checked,
    checked_prefix,
)

P = ParamSpec("P")
T = TypeVar("T")
_PARTIAL: Final = ".partial"
_TRIES: Final = 20


class LocalObjects:
    """Stores each object as a file. The file is written elsewhere and renamed once it's complete."""

    def __init__(self, root: Path) -> None:
        self._root = root

    async def start(self) -> None:
        await _in_thread(self._create_directory)

    def _create_directory(self) -> None:
        partials = self._root / _PARTIAL
        partials.mkdir(parents=True, exist_ok=True)
        for path in partials.iterdir():
            _remove_if_abandoned(path)

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        target = self._path(key)
        partial = _Partial(self._root / _PARTIAL / new_id())
        waiting = bytearray()
        try:
            async for piece in pieces:
                waiting += piece
                if len(waiting) >= PIECE_BYTES:
                    await _writing(partial.write, waiting)
                    waiting = bytearray()
            # A small object needs only one call to a thread.
            return await _writing(partial.finish, waiting, target, durable)
        except BaseException:
            # This doesn't run in a thread, since a cancelled task wouldn't wait for it.
            partial.discard()
            raise

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        path = self._path(key)
        try:
            file = await _in_thread(path.open, "rb")
        except ObjectMissing:
            self._check_directory()
            raise
        return _pieces(file, start, length)

    @asynccontextmanager
    async def as_file(self, key: str) -> AsyncIterator[Path]:
        path = self._path(key)
        # Looking up a directory entry takes less time than starting a thread.
        if not path.is_file():
            self._check_directory()
            raise ObjectMissing(key)
        yield path

    async def size(self, key: str) -> int | None:
        path = self._path(key)
        try:
            return (await _in_thread(path.stat)).st_size
        except ObjectMissing:
            self._check_directory()
            return None

    async def delete(self, key: str) -> None:
        path = self._path(key)
        await _in_thread(self._delete, path)

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str, label: str) -> str | None:  # noqa: ARG002
        checked(key)
        return None

    async def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        top = self._root / checked_prefix(prefix)
        for entry in await _in_thread(self._walk, top):
            yield entry

    def _path(self, key: str) -> Path:
        return self._root / checked(key)

    def _check_directory(self) -> None:
        """Raises ``StoreUnavailable`` if the whole directory is missing. The objects may still exist elsewhere."""
        if not (self._root / _PARTIAL).is_dir():
            raise StoreUnavailable("the objects' directory is missing")

    def _delete(self, path: Path) -> None:
        try:
            path.unlink()
        except FileNotFoundError:
            self._check_directory()
        for parent in path.parents:
            if parent == self._root:
                return
            try:
                parent.rmdir()
            except OSError:
                return

    def _walk(self, top: Path) -> list[Entry]:
        if not top.is_dir():
            self._check_directory()
        entries = []
        for directory, names, files in os.walk(top):
            names[:] = [name for name in names if not name.startswith(".")]
            for name in files:
                path = Path(directory) / name
                try:
                    found = path.stat()
                except FileNotFoundError:
                    continue
                written_at = datetime.fromtimestamp(found.st_mtime, UTC)
                entries.append(Entry(path.relative_to(self._root).as_posix(), found.st_size, written_at))
        return entries


class _Partial:
    """A file that is still being written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._digest = sha256()
        self._size = 0
        self._file: BinaryIO | None = None

    def write(self, piece: bytearray) -> None:
        if self._file is None:
            self._file = _locked(self._path)
        self._digest.update(piece)
        self._size += len(piece)
        self._file.write(piece)

    def finish(self, last: bytearray, target: Path, durable: bool) -> Written:
        self.write(last)
        assert self._file is not None
        self._file.flush()
        if durable:
            os.fsync(self._file.fileno())
        for left in reversed(range(_TRIES)):
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                self._path.rename(target)
                break
            except (FileNotFoundError, FileExistsError):
                # A deletion has just removed the empty directory, or another put has created it.
                if not left:
                    raise StoreUnavailable("the object's directory keeps being removed") from None
        # The file is closed last. Without its lock, it would be removed as abandoned.
        self._file.close()
        if durable:
            _sync_directory(target.parent)
        return Written(self._size, self._digest.hexdigest())

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
        self._path.unlink(missing_ok=True)


def _locked(path: Path) -> BinaryIO:
    """Creates a file that is locked while it's open. The lock ends with the process, even after a crash."""
    while True:
        file = path.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            return file
        # A process that is starting has just removed the file as abandoned.
        file.close()


def _remove_if_abandoned(path: Path) -> None:
    """Deletes a partial file whose process was killed while writing it."""
    try:
        with path.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
    except (FileNotFoundError, BlockingIOError):
        return


async def _pieces(file: BinaryIO, start: int, length: int | None) -> Pieces:
    left = length
    try:
        if start:
            await _in_thread(file.seek, start)
        while left is None or left > 0:
            wanted = PIECE_BYTES if left is None else min(PIECE_BYTES, left)
            piece = await _in_thread(file.read, wanted)
            if not piece:
                return
            left = None if left is None else left - len(piece)
            yield piece
    finally:
        file.close()


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


async def _writing(work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
    try:
        return await _in_thread(work, *arguments, **options)
    except ObjectMissing:
        raise StoreUnavailable("the objects' directory is missing") from None


async def _in_thread(work: Callable[P, T], /, *arguments: P.args, **options: P.kwargs) -> T:
    try:
        return await asyncio.to_thread(work, *arguments, **options)
    except FileNotFoundError as problem:
        raise ObjectMissing(problem.filename) from problem
    except OSError as problem:
        raise StoreUnavailable(f"the objects' directory can't be used: {problem.strerror}") from problem
