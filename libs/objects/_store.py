"""The object store port, and functions for small objects."""

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
    """The key is invalid. A key consists of names of ``A-Za-z0-9._-`` joined by slashes. No name starts with a dot."""


class ObjectMissing(Exception):
    """No object has this key."""


@dataclass(frozen=True, slots=True)
class Written:
    """A written object. ``size`` is in bytes, ``sha256`` in hexadecimal digits."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    size: int
    written_at: datetime


class ObjectStore(Protocol):
    """Stores objects by key.

    Every method can raise ``StoreUnavailable`` if the store doesn't respond or rejects a valid call.
    """

    async def start(self) -> None:
        """Creates the directory or bucket if it's missing."""

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        """Writes an object completely or not at all, hashing and measuring it. Replaces an object with the same key.

        An error of ``pieces`` is raised and leaves no object. Without ``durable``, writing is faster, but a machine
        failure may lose the object. Use it for objects that can be recreated.
        """

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        """Reads at most ``length`` bytes starting at byte ``start``. The caller closes the result.

        Raises ``ObjectMissing``.
        """

    def as_file(self, key: str) -> AbstractAsyncContextManager[Path]:
        """Provides the object as a readable file until the context ends. Raises ``ObjectMissing``."""

    async def size(self, key: str) -> int | None:
        """Returns the size in bytes, or None if there's no such object."""

    async def delete(self, key: str) -> None:
        """Removes the object if it exists."""

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str, label: str) -> str | None:
        """Returns a URL from which anyone can download the object for ``seconds``, with these headers.

        Its parameter ``x-label`` records the purpose; S3 servers ignore parameters that start with ``x-``. Returns None
        for a store without HTTP. The object isn't looked up, so it may be missing.
        """

    def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """Yields the objects whose keys start with ``prefix``, unordered. ``prefix`` is empty or ends with a slash."""


def checked(key: str) -> str:
    """Returns the key. Raises ``InvalidKey``."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidKey(f"invalid key: {key[:100]!r}")
    return key


def checked_prefix(prefix: str) -> str:
    """Returns the prefix. Raises ``InvalidKey``."""
    if prefix:
        checked(prefix.removesuffix("/"))
        if not prefix.endswith("/"):
            raise InvalidKey("a prefix must end with a slash")
    return prefix


async def one_piece(content: bytes) -> Pieces:
    """Wraps bytes in memory as the pieces for ``put``."""
    yield content


async def delete_all(store: ObjectStore, prefix: str) -> None:
    """Removes all objects with a prefix. Safe to repeat and to interrupt at any point."""
    async for entry in store.entries(prefix):
        await store.delete(entry.key)


async def read_all(store: ObjectStore, key: str) -> bytes:
    """Reads a whole object that fits in memory. Raises ``ObjectMissing``."""
    pieces = await store.open(key)
    try:
        return b"".join([piece async for piece in pieces])
    finally:
        await pieces.aclose()
