"""Stores uploaded files. Either all files of a request are stored, or none."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog

from libs.blobs import Blobs, Inspection, ReceivedFile, Upload, UploadKey, invalid_file, repeated
from libs.blobs.forms import FilePart
from libs.contracts.errors import ValidationFailed
from libs.contracts.file_names import safe_name
from libs.contracts.file_types import type_of
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.contracts.resources.files import File, FileUploaded
from libs.eventing import Outbox
from libs.quotas import CompanyAmounts
from services.ingestion.adapters.postgres.files import PostgresFileWriter
from services.ingestion.domain.files import StoredFile

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadFiles:
    """Stores uploaded files of up to ``max_bytes`` each, and up to ``max_files`` per request."""

    blobs: Blobs
    outbox: Outbox
    amounts: CompanyAmounts
    max_bytes: int
    max_files: int

    async def __call__(
        self, parts: AsyncIterator[FilePart], caller: Identity, correlation_id: str, key: str | None
    ) -> list[File]:
        """Stores the files. ``key`` is the idempotency key.

        Raises ``UnsupportedMediaType``, ``TooLarge``, ``ValidationFailed``, ``QuotaExceeded``, and any error
        that ``parts`` raises.
        """
        async with self.blobs.upload(caller.company_id) as upload:
            received: list[ReceivedFile] = []
            async for part in parts:
                if len(received) == self.max_files:
                    raise ValidationFailed(f"The maximum number of files per upload is {self.max_files}.")
                name, max_bytes = safe_name(part.name), self.max_bytes
                received.append(
                    await upload.receive(name, type_of(name), part.pieces, max_bytes=max_bytes, inspection=Inspection())
                )
            if not received:
                raise invalid_file("The request doesn't contain a file.", "missing", "add a field named 'file'")
            stored = await self._store(upload, received, caller, correlation_id, key)
        return [file.public() for file in stored]

    async def _store(
        self, upload: Upload, received: list[ReceivedFile], caller: Identity, correlation_id: str, key: str | None
    ) -> list[StoredFile]:
        ids = [new_id() for _ in received]
        async with self.outbox.transaction(MessageContext(caller.company_id, correlation_id)) as transaction:
            writer, connection = PostgresFileWriter(transaction), transaction.connection
            if key is not None:
                upload_key = UploadKey(caller.company_id, caller.user_id, key)
                if (earlier := await repeated(connection, upload_key, received, ids)) is not None:
                    return await writer.get(caller.company_id, earlier)
            kept = await upload.keep(connection, received)
            files = dict(zip(ids, kept, strict=True))
            stored = await writer.add(caller.company_id, caller.user_id, files, self.amounts)
            for file in stored:
                transaction.emit(FileUploaded(file=file.public()), subject=file.id)
        for file in stored:
            _log.info("file.uploaded", file_id=file.id, size=file.size)
        return stored
