"""Every artifact of a session as one ZIP archive, made while it is sent."""

import io
import time
import zipfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from datetime import datetime
from typing import Any

from libs.contracts.identity import Identity
from libs.objects import ObjectMissing, ObjectStore, Pieces
from services.artifacts.domain.artifacts import BytesMissing, StoredArtifact, original_key
from services.artifacts.domain.names import distinct
from services.artifacts.domain.ports import ArtifactReader
from services.artifacts.use_cases.find_session import SessionAccess


class _Sent(io.RawIOBase):
    """Takes what the archive writes until it is sent."""

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


class ArtifactPacking:
    def __init__(self, artifacts: ArtifactReader, access: SessionAccess, store: ObjectStore) -> None:
        self._artifacts = artifacts
        self._access = access
        self._store = store

    async def pack(self, caller: Identity, session_id: str) -> AsyncGenerator[bytes, None]:
        """The archive's bytes. What can be refused is raised before the first of them is asked for."""
        await self._access.readable(session_id, caller)
        artifacts = await self._artifacts.all(session_id)
        pieces = self._pieces(artifacts)
        # Finds out now whether the store answers, while an error can still be told.
        first = await anext(pieces)
        return _with_first(first, pieces)

    async def _pieces(self, artifacts: Sequence[StoredArtifact]) -> AsyncGenerator[bytes, None]:
        sent = _Sent()
        names = distinct(artifact.name for artifact in artifacts)
        with zipfile.ZipFile(sent, "w") as archive:
            for artifact, name in zip(artifacts, names, strict=True):
                content = await self._content(artifact)
                entry = zipfile.ZipInfo(name, _moment(artifact.created_at))
                # Members are not compressed: most kinds of file are already, and it would cost all the CPU.
                with archive.open(entry, "w") as member:
                    async with aclosing(content):
                        async for piece in content:
                            member.write(piece)
                            yield sent.take()
                yield sent.take()
        yield sent.take()

    async def _content(self, artifact: StoredArtifact) -> Pieces:
        try:
            return await self._store.open(original_key(artifact.id))
        except ObjectMissing:
            raise BytesMissing from None


async def _with_first(first: bytes, rest: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    async with aclosing(rest):
        yield first
        async for piece in rest:
            if piece:
                yield piece


def _moment(created_at: datetime) -> tuple[int, int, int, int, int, int]:
    moment = time.gmtime(created_at.timestamp())
    return (moment.tm_year, moment.tm_mon, moment.tm_mday, moment.tm_hour, moment.tm_min, moment.tm_sec)
