"""Packs the artifacts of a session into a ZIP archive while it's being sent."""

import io
import zipfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from libs.contracts.file_names import distinct
from libs.contracts.identity import Identity
from services.artifacts.domain.artifacts import StoredArtifact
from services.artifacts.use_cases.contents import Contents


class _ZipOutput(io.RawIOBase):
    """A buffer for the archive's bytes until they're sent."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, piece: Any, /) -> int:
        taken = bytes(memoryview(piece))
        self._waiting += taken
        return len(taken)

    def take(self) -> bytes:
        taken = bytes(self._waiting)
        self._waiting.clear()
        return taken


async def packed(contents: Contents, caller: Identity, session_id: str) -> AsyncGenerator[bytes, None]:
    """Returns the stream of the archive's bytes. Raises ``SessionNotFound`` and any error of ``contents.open``."""
    await contents.sessions.readable(session_id, caller)
    pieces = _pieces(contents, await contents.artifacts.all(session_id))
    # Detect an unreachable store while an error can still be returned.
    first = await anext(pieces)
    return _with_first(first, pieces)


async def _pieces(contents: Contents, artifacts: Sequence[StoredArtifact]) -> AsyncGenerator[bytes, None]:
    sent = _ZipOutput()
    names = distinct(artifact.name for artifact in artifacts)
    with zipfile.ZipFile(sent, "w") as archive:
        for artifact, name in zip(artifacts, names, strict=True):
            content = await contents.open(artifact)
            entry = zipfile.ZipInfo(name, _moment(artifact.created_at))
            # Don't compress the members: most file types are compressed, and compression would use all the CPU.
            with archive.open(entry, "w") as member:
                async with aclosing(content):
                    async for piece in content:
                        member.write(piece)
                        yield sent.take()
            yield sent.take()
    yield sent.take()


async def _with_first(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            if piece:
                yield piece


def _moment(created_at: datetime) -> tuple[int, int, int, int, int, int]:
    year, month, day, hour, minute, second, *_ = created_at.utctimetuple()
    return year, month, day, hour, minute, second
