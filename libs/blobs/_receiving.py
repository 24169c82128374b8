"""Streams files to the object store while checking, measuring and hashing them."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import structlog

from libs.blobs._rows import ReceivedFile, keep, original_key
from libs.contracts.errors import Conflict, ErrorDetail, TooLarge, ValidationFailed
from libs.contracts.file_types import HEAD_BYTES, FileType, check_signature
from libs.contracts.identifiers import new_id
from libs.objects import ObjectStore
from libs.persistence import Connection, Database

# The collector abandons uploads an hour after this limit, so it never deletes objects that are still being written.
_RECEIVE_SECONDS: Final = 2 * 3600.0
_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Inspection:
    """A check of a file's first ``head_bytes``. ``inspect`` raises an error to reject the file."""

    inspect: Callable[[bytes], None] = lambda _: None
    head_bytes: int = HEAD_BYTES


@dataclass(slots=True)
class Upload:
    """The blobs that one request has received, and those that a transaction has kept."""

    blobs: "Blobs"
    company_id: str
    received: set[str] = field(default_factory=set)
    kept: set[str] = field(default_factory=set)

    async def receive(
        self, name: str, kind: FileType, pieces: AsyncIterator[bytes], *, max_bytes: int, inspection: Inspection
    ) -> ReceivedFile:
        """Stores a file after checking that its first bytes match its type.

        Raises ``UnsupportedMediaType``, ``TooLarge``, ``ValidationFailed``, ``StoreUnavailable``, and any
        error that ``pieces`` or the inspection raises.
        """

        def check(head: bytes) -> None:
            check_signature(name, kind, head[:HEAD_BYTES])
            inspection.inspect(head)

        checked = checked_pieces(name, pieces, check, head_bytes=inspection.head_bytes, max_bytes=max_bytes)
        file = await self.blobs.receive(self.company_id, name, kind.content_type, checked)
        self.received.add(file.blob_id)
        return file

    async def keep(self, connection: Connection, files: Sequence[ReceivedFile]) -> list[ReceivedFile]:
        """Keeps the files' blobs. Returns each file with the ID of the blob to reference.

        Raises ``Conflict`` if the collector has abandoned an upload in the meantime.
        """
        kept = await keep(connection, self.company_id, files)
        self.kept.update(file.blob_id for file in kept)
        return kept


@dataclass(frozen=True, slots=True)
class Blobs:
    """Receives uploaded files. A blob's row is inserted first, so that the collector finds unfinished uploads."""

    database: Database
    store: ObjectStore

    @asynccontextmanager
    async def upload(self, company_id: str) -> AsyncIterator[Upload]:
        """Opens an upload. At the end of the context, discards the files that were received but not kept."""
        upload = Upload(self, company_id)
        try:
            yield upload
        except BaseException:
            # This also runs if the client disconnects, which cancels the task.
            await self._discard(upload.received)
            raise
        await self._discard(upload.received - upload.kept)

    async def receive(
        self, company_id: str, name: str, content_type: str, pieces: AsyncIterator[bytes]
    ) -> ReceivedFile:
        """Stores a file as a new blob. The collector deletes the blob within hours unless a transaction keeps it.

        Raises ``Conflict`` if the upload takes over two hours. Also raises ``StoreUnavailable``, and any error
        that ``pieces`` raises.
        """
        blob_id = new_id()
        await self.database.execute("INSERT INTO blobs (id, company_id) VALUES (%s, %s)", (blob_id, company_id))
        try:
            async with asyncio.timeout(_RECEIVE_SECONDS) as limit:
                written = await self.store.put(original_key(blob_id), pieces)
        except BaseException as problem:
            await self._discard([blob_id])
            if limit.expired():
                raise Conflict("The upload took too long and was abandoned. Send it again.") from problem
            raise
        return ReceivedFile(
            blob_id=blob_id, name=name, content_type=content_type, size=written.size, sha256=written.sha256
        )

    async def _discard(self, blob_ids: Collection[str]) -> None:
        """Tries to discard the blobs, and logs a failure. The collector deletes any that remain."""
        if not blob_ids:
            return
        try:
            for blob_id in await self._given_up(list(blob_ids)):
                await self.store.delete(original_key(blob_id))
        except Exception as problem:
            _log.warning("upload.not_discarded", blob_ids=list(blob_ids), problem=repr(problem))

    async def _given_up(self, blob_ids: list[str]) -> set[str]:
        async with self.database.transaction() as connection:
            await connection.execute(
                """UPDATE blobs SET state = 'abandoned', since = now()
                   WHERE id = ANY (%s) AND state = 'uploading'""",
                (blob_ids,),
            )
            # Only a second statement sees a commit whose acknowledgement was lost. The statement selects the blobs
            # to keep, since the collector may have deleted the rows of the others.
            found = await connection.execute(
                "SELECT id FROM blobs WHERE id = ANY (%s) AND state IN ('stored', 'unused')", (blob_ids,)
            )
            return set(blob_ids) - {blob_id for (blob_id,) in await found.fetchall()}


async def checked_pieces(
    name: str, pieces: AsyncIterator[bytes], check_head: Callable[[bytes], None], *, head_bytes: int, max_bytes: int
) -> AsyncIterator[bytes]:
    """Yields the pieces of a file. The first piece has at least ``head_bytes``, unless the file is shorter.

    Raises ``TooLarge``, ``ValidationFailed`` if the file is empty, and any error that ``check_head`` raises for the
    first piece.
    """
    size, head, is_checked = 0, bytearray(), False
    async for piece in pieces:
        size += len(piece)
        if size > max_bytes:
            raise TooLarge.beyond(max_bytes, f"'{name}'")
        if is_checked:
            yield piece
            continue
        head += piece
        if len(head) >= head_bytes:
            check_head(bytes(head))
            is_checked = True
            yield bytes(head)
            head.clear()
    if size == 0:
        raise invalid_file(f"'{name}' is empty.", "file_empty", "send a file that isn't empty")
    if not is_checked:
        check_head(bytes(head))
        yield bytes(head)


def invalid_file(message: str, kind: str, hint: str) -> ValidationFailed:
    return ValidationFailed(message, details=[ErrorDetail(loc=["file"], type=kind, message=message, hint=hint)])
