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
    """The key isn't a path of names joined by slashes.

    A name contains only ``A-Za-z0-9._-`` and doesn't start with a dot.
    """


class ObjectMissing(Exception):
    """No object has this key."""


@dataclass(frozen=True, slots=True)
class Written:
    """A written object. ``size`` is in bytes; ``sha256`` is hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    size: int
    written_at: datetime


class ObjectStore(Protocol):
    """Stores objects. Every method raises ``StoreUnavailable`` if the store doesn't respond or rejects a valid call."""

    async def start(self) -> None:
        """Creates the directory or bucket if it's missing."""

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        """Writes an object, either completely or not at all. Replaces an existing object.

        Raises any error that ``pieces`` raises. Without ``durable``, writing is faster, but the object may be lost if
        the machine fails.
        """

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        """Returns the object's bytes from ``start``, at most ``length`` of them. The caller must close the result.

        Raises ``ObjectMissing``.
        """

    def as_file(self, key: str) -> AbstractAsyncContextManager[Path]:
        """Opens the object as a readable file until the context ends. Raises ``ObjectMissing``."""

    async def size(self, key: str) -> int | None:
        """Returns the object's size in bytes, or None if the object doesn't exist."""

    async def delete(self, key: str) -> None:
        """Deletes the object if it exists."""

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str, label: str) -> str | None:
        """Returns a URL from which anyone can download the object for ``seconds``, with the given response headers.

        The URL contains ``label`` in the parameter ``x-label``, which S3 servers ignore. Returns None if the store
        isn't accessed over HTTP. Doesn't check that the object exists.
        """

    def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """Yields the objects under ``prefix``, in any order. ``prefix`` is empty or ends with a slash."""


def checked(key: str) -> str:
    """Returns the key if it's valid. Raises ``InvalidKey`` if not."""
    if len(key) > _LONGEST_KEY or not _KEY.fullmatch(key):
        raise InvalidKey(f"invalid key: {key[:100]!r}")
    return key


def checked_prefix(prefix: str) -> str:
    """Returns the prefix if it's valid. Raises ``InvalidKey`` if not."""
    if prefix:
        checked(prefix.removesuffix("/"))
        if not prefix.endswith("/"):
            raise InvalidKey("a prefix must end with a slash")
    return prefix


async def one_piece(content: bytes) -> Pieces:
    yield content


async def delete_all(store: ObjectStore, prefix: str) -> None:
    """Deletes all objects with a prefix. An interrupted call can be repeated."""
    async for entry in store.entries(prefix):
        await store.delete(entry.key)


async def read_all(store: ObjectStore, key: str) -> bytes:
    """Returns the content of an object that fits in memory. Raises ``ObjectMissing``."""
    pieces = await store.open(key)
    try:
        return b"".join([piece async for piece in pieces])
    finally:
        await pieces.aclose()
