"""The port of object stores, and helpers for small objects."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

Pieces = AsyncGenerator[bytes, None]
PIECE_BYTES: Final = 256 * 1024
_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_LONGEST_KEY: Final = 900


class InvalidKey(ValueError):
    """Keys are names of ``A-Za-z0-9._-`` joined by slashes; no name begins with a dot."""


class ObjectMissing(Exception):
    """There is no object under this key."""


@dataclass(frozen=True, slots=True)
class Written:
    """``size`` in bytes, ``sha256`` in hexadecimal digits."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    size: int
    written_at: datetime


class ObjectStore(Protocol):
    """Every method may raise ``StoreUnavailable``: the store did not answer, or refused a valid call."""

    async def start(self) -> None:
        """Creates the directory or bucket where it is missing."""

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        """Writes an object while hashing and measuring it, as a whole or not at all; replaces one of the same key.

        Raises what ``pieces`` raises, and leaves nothing then. Without ``durable`` the object may be lost when the
        machine fails, which is faster for objects that can be made again.
        """

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        """Reads at most ``length`` bytes from byte ``start`` on. The caller closes the result.

        Raises ``ObjectMissing``.
        """

    def as_file(self, key: str) -> AbstractAsyncContextManager[Path]:
        """The object as a file to read, until the context ends. Raises ``ObjectMissing``."""

    async def size(self, key: str) -> int | None:
        """In bytes; None when there is no such object."""

    async def delete(self, key: str) -> None:
        """Removes the object if it exists."""

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str, label: str) -> str | None:
        """A URL from which anybody can download the object for that long, with these headers.

        Its parameter ``x-label`` says what it was made for: S3 servers ignore parameters that begin with ``x-``.

        None for a store without HTTP. The object is not looked up, so it may be missing.
        """

    def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """The objects whose keys begin with ``prefix``, which ends with a slash or is empty; in no order."""


def checked(key: str) -> str:
    """The key itself. Raises ``InvalidKey``."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidKey(f"not a key: {key[:100]!r}")
    return key


def checked_prefix(prefix: str) -> str:
    """The prefix itself. Raises ``InvalidKey``."""
    if prefix:
        checked(prefix.removesuffix("/"))
        if not prefix.endswith("/"):
            raise InvalidKey("a prefix ends with a slash")
    return prefix


async def one_piece(content: bytes) -> Pieces:
    """Bytes in memory as the pieces to ``put``."""
    yield content


async def delete_all(store: ObjectStore, prefix: str) -> None:
    """Removes all objects below a prefix. Safe to repeat and to break off at any point."""
    async for entry in store.entries(prefix):
        await store.delete(entry.key)


async def read_all(store: ObjectStore, key: str) -> bytes:
    """A whole object that is small enough for memory. Raises ``ObjectMissing``."""
    pieces = await store.open(key)
    try:
        return b"".join([piece async for piece in pieces])
    finally:
        await pieces.aclose()
