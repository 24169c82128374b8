"""The port of object stores."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from libs.contracts.errors import ServiceUnavailable

Pieces = AsyncGenerator[bytes, None]
PIECE_BYTES: Final = 256 * 1024
_KEY: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*")
_LONGEST_KEY: Final = 900


class InvalidKey(ValueError):
    """Keys are names of ``A-Za-z0-9._-`` joined by slashes; no name begins with a dot."""


class ObjectMissing(Exception):
    """There is no object under this key."""


class StoreUnavailable(ServiceUnavailable):
    """The store did not answer, or refused what it should not refuse; the same call may succeed later."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written: ``size`` in bytes, ``sha256`` in hex."""

    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Entry:
    key: str
    size: int
    written_at: datetime


class ObjectStore(Protocol):
    """Every method may raise ``StoreUnavailable``."""

    async def start(self) -> None:
        """Make sure that objects can be kept: the directory or bucket is there."""
        ...

    async def put(self, key: str, pieces: AsyncIterator[bytes], *, durable: bool = True) -> Written:
        """Write an object while hashing and measuring it; it is there in whole or not at all.

        What ``pieces`` raises comes out here, and nothing is left. An object of the same key is replaced.
        ``durable`` False: the object may be lost when the machine fails, which is faster where it can be made anew.
        """
        ...

    async def open(self, key: str, *, start: int = 0, length: int | None = None) -> Pieces:
        """Begin to read, from byte ``start``, at most ``length`` bytes. The caller closes what is returned.

        Raises ``ObjectMissing``.
        """
        ...

    def as_file(self, key: str) -> AbstractAsyncContextManager[Path]:
        """The object as a file to read, for as long as the context lasts. Raises ``ObjectMissing``."""
        ...

    async def size(self, key: str) -> int | None:
        """In bytes; None when there is no such object."""
        ...

    async def delete(self, key: str) -> None:
        """Remove the object; one that is not there is fine."""
        ...

    def link(self, key: str, *, seconds: int, content_type: str, disposition: str) -> str | None:
        """A URL under which anybody can download the object for that long, with these headers.

        None when the store is not reached over HTTP. Nothing is looked up: the object may be missing.
        """
        ...

    def entries(self, prefix: str = "") -> AsyncGenerator[Entry, None]:
        """What is stored under keys that begin with ``prefix``, which ends with a slash or is empty; in no order."""
        ...


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
