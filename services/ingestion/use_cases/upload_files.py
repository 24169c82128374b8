"""Checks, measures and hashes files while they stream into the object store."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from hashlib import sha256

import structlog

from libs.contracts.api.file_names import safe_name
from libs.contracts.api.file_types import HEAD_BYTES, check_signature, type_of
from libs.contracts.api.files import File
from libs.contracts.errors import ValidationFailed
from libs.contracts.events.ingestion import FileUploaded
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.eventing import Outbox, Transaction
from libs.objects import ObjectStore
from libs.service_defaults.uploads import FilePart, checked_pieces, invalid_file
from services.ingestion.domain.files import StoredFile, original_key
from services.ingestion.domain.ports.files import NewFile, Uploads, UploadWriter

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_bytes`` of one file, ``max_files`` of one upload."""

    max_bytes: int
    max_files: int


@dataclass(frozen=True, slots=True)
class UploadFiles:
    uploads: Uploads
    store: ObjectStore
    outbox: Outbox
    writer: Callable[[Transaction], UploadWriter]
    limits: Limits

    async def __call__(
        self, parts: AsyncIterator[FilePart], caller: Identity, correlation_id: str, key: str | None
    ) -> list[File]:
        """Stores all of the files or none. ``key`` is the idempotency key.

        Raises ``UnsupportedMediaType``, ``TooLarge``, ``ValidationFailed`` and what ``parts`` raises.
        """
        taken: list[NewFile] = []
        begun: list[str] = []
        try:
            async for part in parts:
                if len(taken) == self.limits.max_files:
                    raise ValidationFailed(f"At most {self.limits.max_files} files can be uploaded at once.")
                taken.append(await self._take(part, caller.company_id, begun))
            if not taken:
                raise invalid_file("The body has no file.", "missing", "add a field named 'file'")
            stored, fresh = await self._complete(taken, caller, correlation_id, key)
        except BaseException:
            await self._discard(begun)
            raise
        await self._discard([blob_id for blob_id in begun if blob_id not in fresh])
        return [file.public() for file in stored]

    async def _take(self, part: FilePart, company_id: str, begun: list[str]) -> NewFile:
        name = safe_name(part.name)
        kind = type_of(name)
        blob_id = await self.uploads.begin(company_id)
        # Before any bytes, so that a failed upload is discarded as well.
        begun.append(blob_id)
        pieces = checked_pieces(
            name,
            part.pieces,
            lambda head: check_signature(name, kind, head[:HEAD_BYTES]),
            head_bytes=HEAD_BYTES,
            max_bytes=self.limits.max_bytes,
        )
        written = await self.store.put(original_key(blob_id), pieces)
        return NewFile(
            id=new_id(),
            blob_id=blob_id,
            name=name,
            content_type=kind.content_type,
            size=written.size,
            sha256=written.sha256,
        )

    async def _complete(
        self, taken: list[NewFile], caller: Identity, correlation_id: str, key: str | None
    ) -> tuple[list[StoredFile], set[str]]:
        """The files as they are stored, and the blobs of this upload that are kept."""
        context = MessageContext(caller.company_id, correlation_id)
        async with self.outbox.transaction(context) as transaction:
            writer = self.writer(transaction)
            if key is not None:
                earlier = await writer.earlier(caller.company_id, caller.user_id, key, _hash_of(taken))
                if earlier is not None:
                    return earlier, set()
            stored = await writer.complete(caller.company_id, caller.user_id, taken)
            if key is not None:
                await writer.remember(caller.company_id, caller.user_id, key, [file.id for file in stored])
            for file in stored:
                transaction.emit(FileUploaded(file=file.public()), subject=file.id)
        for file in stored:
            _log.info("file.uploaded", file_id=file.id, size=file.size)
        return stored, {file.blob_id for file in stored}

    async def _discard(self, blob_ids: list[str]) -> None:
        """Best effort: the garbage collection removes the rest."""
        if not blob_ids:
            return
        try:
            # When the answer to the commit was lost, blobs may be stored: those are not abandoned.
            for blob_id in await self.uploads.abandon(blob_ids):
                await self.store.delete(original_key(blob_id))
        except Exception as problem:
            _log.warning("upload.not_discarded", blob_ids=blob_ids, problem=repr(problem))


def _hash_of(files: list[NewFile]) -> str:
    """Equal for equal names and contents in the same order."""
    return sha256("\n".join(f"{file.sha256} {file.name}" for file in files).encode()).hexdigest()
