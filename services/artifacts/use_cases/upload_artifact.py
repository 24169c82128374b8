"""Stores uploaded artifacts."""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import structlog

from libs.blobs import Blobs, Inspection, ReceivedFile, UploadKey, invalid_file, repeated
from libs.blobs import Upload as Receiving
from libs.blobs.forms import FilePart
from libs.contracts.errors import UnsupportedMediaType
from libs.contracts.file_names import safe_name
from libs.contracts.file_types import type_of
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.contracts.resources.artifacts import Artifact, ArtifactOrigin, ArtifactReady, ArtifactUploaded
from libs.eventing import Outbox
from libs.quotas import CompanyAmounts
from services.artifacts.adapters.postgres.artifacts import PostgresArtifactWriter
from services.artifacts.domain import images
from services.artifacts.domain.artifacts import NewArtifact, StoredArtifact, strategy_of
from services.artifacts.use_cases.access import SessionAccess
from services.artifacts.use_cases.links import Links

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """The context of an upload. ``key`` is the caller's idempotency key."""

    session_id: str
    caller: Identity
    origin: ArtifactOrigin
    correlation_id: str
    key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadArtifact:
    """Stores uploaded artifacts. ``on_stored`` is called after the transaction, to start the processing."""

    access: SessionAccess
    blobs: Blobs
    outbox: Outbox
    amounts: CompanyAmounts
    links: Links
    max_bytes: int
    max_pixels: int
    on_stored: Callable[[], None]

    async def __call__(self, parts: AsyncIterator[FilePart], what: Upload) -> Artifact:
        """Stores the only file in a request's body.

        Raises ``SessionNotFound``, ``UnsupportedMediaType``, ``TooLarge``, ``ValidationFailed``, ``QuotaExceeded``,
        ``StoreUnavailable``, and any error that ``parts`` raises.
        """
        await self.access.writable(what.session_id, what.caller)
        part = await anext(parts, None)
        if part is None:
            raise invalid_file("The request doesn't contain a file.", "missing", "add a field named 'file'")
        name, metadata = safe_name(part.name), dict[str, Any]()
        kind = type_of(name)
        inspection = Inspection()
        if strategy_of(kind.content_type) == "vision":
            inspection = Inspection(
                lambda head: self._measure(name, kind.content_type, head, metadata), images.HEAD_BYTES
            )
        async with self.blobs.upload(what.caller.company_id) as receiving:
            file = await receiving.receive(name, kind, part.pieces, max_bytes=self.max_bytes, inspection=inspection)
            if await anext(parts, None) is not None:
                raise invalid_file(
                    "The request contains more than one file.", "too_many", "upload each artifact in its own request"
                )
            stored = await self._store(receiving, file, metadata, what)
        self.on_stored()
        return self.links.public(stored)

    def _measure(self, name: str, content_type: str, head: bytes, metadata: dict[str, Any]) -> None:
        found = images.dimensions(content_type, head)
        if found is None:
            raise UnsupportedMediaType(f"'{name}' isn't a readable image: its width and height are missing.")
        width, height = found
        if width * height > self.max_pixels:
            raise invalid_file(
                f"'{name}' is {width} x {height} pixels. The maximum is {self.max_pixels} pixels in total.",
                "image_too_large",
                "scale it down",
            )
        metadata.update(width=width, height=height)

    async def _store(
        self, receiving: Receiving, file: ReceivedFile, metadata: Mapping[str, Any], what: Upload
    ) -> StoredArtifact:
        caller, artifact_id = what.caller, new_id()
        async with self.outbox.transaction(MessageContext(caller.company_id, what.correlation_id)) as transaction:
            writer, connection = PostgresArtifactWriter(transaction), transaction.connection
            await writer.lock_session(what.session_id)
            if what.key is not None:
                upload_key = UploadKey(what.session_id, caller.user_id, what.key)
                if (earlier := await repeated(connection, upload_key, [file], [artifact_id])) is not None:
                    return await writer.get(earlier[0])
            [kept] = await receiving.keep(connection, [file])
            strategy = strategy_of(file.content_type)
            artifact = NewArtifact(
                id=artifact_id,
                session_id=what.session_id,
                **asdict(kept),
                origin=what.origin,
                strategy=strategy,
                status="ready" if strategy == "vision" else "pending",
                metadata=metadata,
                created_by=caller.user_id,
                correlation_id=what.correlation_id,
            )
            stored = await writer.add(caller.company_id, artifact, self.amounts)
            transaction.emit(ArtifactUploaded(artifact=stored.record()), subject=stored.id, owner_id=stored.owner_id)
            if stored.status == "ready":
                ready = ArtifactReady(artifact_id=stored.id, session_id=stored.session_id, metadata=dict(metadata))
                transaction.emit(ready, subject=stored.id, owner_id=stored.owner_id)
        _log.info("artifact.uploaded", artifact_id=stored.id, session_id=stored.session_id, size=stored.size)
        return stored
