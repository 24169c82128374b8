"""Stores an artifact while it streams: checks, measures and hashes it on its way into the object store."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from libs.contracts.api.artifacts import Artifact, ArtifactOrigin
from libs.contracts.api.file_names import safe_name
from libs.contracts.api.file_types import HEAD_BYTES, FileType, check_signature, type_of
from libs.contracts.errors import UnsupportedMediaType
from libs.contracts.events.artifacts import ArtifactReady, ArtifactUploaded
from libs.contracts.identifiers import new_id
from libs.contracts.identity import Identity
from libs.contracts.messages import MessageContext
from libs.eventing import Outbox, Transaction
from libs.objects import ObjectStore
from libs.service_defaults.uploads import FilePart, checked_pieces, invalid_file
from services.artifacts.domain import images
from services.artifacts.domain.artifacts import StoredArtifact, original_key, strategy_of
from services.artifacts.domain.ports import Content, NewArtifact, Uploads, UploadWriter
from services.artifacts.use_cases.access import SessionAccess
from services.artifacts.use_cases.links import Links

_log: Final = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """``max_bytes`` of an artifact, ``max_pixels`` of an image."""

    max_bytes: int
    max_pixels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """``key``: an upload may be repeated without effect."""

    session_id: str
    caller: Identity
    origin: ArtifactOrigin
    correlation_id: str
    key: str | None


@dataclass(slots=True)
class _Inspection:
    """Findings about the head of the content."""

    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadArtifact:
    """``on_stored`` is called after the transaction: the artifact waits to be processed."""

    access: SessionAccess
    uploads: Uploads
    store: ObjectStore
    outbox: Outbox
    writer: Callable[[Transaction], UploadWriter]
    links: Links
    limits: Limits
    on_stored: Callable[[], None]

    async def __call__(self, parts: AsyncIterator[FilePart], what: Upload) -> Artifact:
        """Stores the one file of a body.

        Raises ``SessionNotFound``, ``UnsupportedMediaType``, ``TooLarge``, ``ValidationFailed``,
        ``StoreUnavailable`` and what ``parts`` raises.
        """
        await self.access.writable(what.session_id, what.caller)
        part = await anext(parts, None)
        if part is None:
            raise invalid_file("The body has no file.", "missing", "add a field named 'file'")
        name = safe_name(part.name)
        kind = type_of(name)
        artifact = NewArtifact(
            id=new_id(),
            session_id=what.session_id,
            name=name,
            content_type=kind.content_type,
            origin=what.origin,
            strategy=strategy_of(kind.content_type),
            created_by=what.caller.user_id,
            correlation_id=what.correlation_id,
        )
        # A row before any bytes: whatever becomes of this process, the garbage collection finds them.
        await self.uploads.begin(artifact)
        try:
            content = await self._store_content(artifact, kind, part, parts)
            stored, fresh = await self._complete(artifact, content, what)
        except BaseException:
            # Also when the caller disconnects, which cancels this.
            await self._discard(artifact.id)
            raise
        if not fresh:
            await self._discard(artifact.id)
        self.on_stored()
        return self.links.public(stored)

    async def _store_content(
        self, artifact: NewArtifact, kind: FileType, part: FilePart, parts: AsyncIterator[FilePart]
    ) -> Content:
        inspection = _Inspection()
        pieces = checked_pieces(
            artifact.name,
            part.pieces,
            lambda head: self._inspect(artifact, kind, head, inspection),
            head_bytes=images.HEAD_BYTES if artifact.strategy == "vision" else HEAD_BYTES,
            max_bytes=self.limits.max_bytes,
        )
        written = await self.store.put(original_key(artifact.id), pieces)
        if await anext(parts, None) is not None:
            raise invalid_file("The body has more than one file.", "too_many", "upload artifacts one by one")
        return Content(
            size=written.size,
            sha256=written.sha256,
            status="ready" if artifact.strategy == "vision" else "pending",
            metadata=inspection.metadata,
        )

    def _inspect(self, artifact: NewArtifact, kind: FileType, head: bytes, inspection: _Inspection) -> None:
        check_signature(artifact.name, kind, head[:HEAD_BYTES])
        if artifact.strategy != "vision":
            return
        found = images.dimensions(artifact.content_type, head)
        if found is None:
            raise UnsupportedMediaType(f"'{artifact.name}' is no readable image: it does not say how large it is.")
        if found.pixels > self.limits.max_pixels:
            raise invalid_file(
                f"'{artifact.name}' has {found.width} x {found.height} pixels; at most"
                f" {self.limits.max_pixels} are taken.",
                "image_too_large",
                "scale it down",
            )
        inspection.metadata.update(width=found.width, height=found.height)

    async def _complete(self, artifact: NewArtifact, content: Content, what: Upload) -> tuple[StoredArtifact, bool]:
        async with self.outbox.transaction(MessageContext(what.caller.company_id, what.correlation_id)) as transaction:
            stored, fresh = await self.writer(transaction).complete(artifact, content, what.key)
            if fresh:
                transaction.emit(
                    ArtifactUploaded(artifact=stored.record()), subject=stored.id, owner_id=stored.owner_id
                )
                if stored.status == "ready":
                    ready = ArtifactReady(
                        artifact_id=stored.id, session_id=stored.session_id, metadata=dict(stored.metadata)
                    )
                    transaction.emit(ready, subject=stored.id, owner_id=stored.owner_id)
        if fresh:
            _log.info("artifact.uploaded", artifact_id=stored.id, session_id=stored.session_id, size=stored.size)
        return stored, fresh

    async def _discard(self, artifact_id: str) -> None:
        """Best effort: the garbage collection removes what stays."""
        try:
            # Not abandoned when only the answer to the commit got lost.
            if await self.uploads.abandon(artifact_id):
                await self.store.delete(original_key(artifact_id))
        except Exception as problem:
            _log.warning("upload.not_discarded", artifact_id=artifact_id, problem=repr(problem))
