"""The object store port, and functions that read and write small objects."""

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
    """The key isn't valid.

    It must consist of names joined by slashes. A name contains only ``A-Za-z0-9._-`` and doesn't start with a dot.
    """


class ObjectMissing(Exception):
    """There's no object with this key."""


@dataclass(frozen=True, slots=True)
class Written:
    """The properties of an object that was written. ``size`` is in bytes; ``sha256`` is hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    size: int
    written_at: datetime


class ObjectStore(Protocol):
    """Stores objects under keys.

    Every method raises ``StoreUnavailable`` if the store doesn't respond or rejects a valid call.
    """

    async def start(self) -> None:
        """Creates the directory or bucket if it's missing."""

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        """Writes an object, either completely or not at all, and returns its size and hash.

        Replaces an existing object. If ``pieces`` raises an error, the error is raised and no object remains. Without
        ``durable``, writing is faster, but the object may be lost if the machine fails. Use this for objects that can
        be recreated.
        """

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        """Returns the object's bytes from ``start``, at most ``length`` of them. The caller must close the result.

        Raises ``ObjectMissing``.
        """

    def as_file(self, key: str) -> AbstractAsyncContextManager[Path]:
        """Opens the object as a readable file until the context ends. Raises ``ObjectMissing``."""

    async def size(self, key: str) -> int | None:
        """Returns the size of the object in bytes, or None if there's no such object."""

    async def delete(self, key: str) -> None:
        """Deletes the object if it exists."""

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str, label: str) -> str | None:
        """Returns a URL from which anyone can download the object for ``seconds``, with the given response headers.

        The URL's parameter ``x-label`` contains ``label``; S3 servers ignore parameters that start with ``x-``.
        Returns None for a store that isn't accessed over HTTP. Doesn't check that the object exists.
        """

    def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """Yields the objects whose keys start with ``prefix``, in no particular order.

        ``prefix`` is empty or ends with a slash.
        """


def checked(key: str) -> str:
    """Returns the key if it's valid. Raises ``InvalidKey`` if it isn't."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidKey(f"invalid key: {key[:100]!r}")
    return key


def checked_prefix(prefix: str) -> str:
    """Returns the prefix if it's valid. Raises ``InvalidKey`` if it isn't."""
    if prefix:
        checked(prefix.removesuffix("/"))
        if not prefix.endswith("/"):
            raise InvalidKey("a prefix must end with a slash")
    return prefix


async def one_piece(content: bytes) -> Pieces:
    """Yields in-memory bytes in one piece, for ``put``."""
    yield content


async def delete_all(store: ObjectStore, prefix: str) -> None:
    """Deletes all objects with a prefix. The call can be repeated, and interrupted at any point."""
    async for entry in store.entries(prefix):
        await store.delete(entry.key)


async def read_all(store: ObjectStore, key: str) -> bytes:
    """Returns the content of an object that fits in memory. Raises ``ObjectMissing``."""
    pieces = await store.open(key)
    try:
        return b"".join([piece async for piece in pieces])
    finally:
        await pieces.aclose()
