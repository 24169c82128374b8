"""Artifacts and their sessions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from libs.contracts.errors import ErrorDetail, ErrorInfo, NotFound, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import (
    BYTES_MISSING,
    ArtifactOrigin,
    ArtifactRecord,
    ProcessingStatus,
    ProcessingStrategy,
)
from libs.contracts.timestamps import format_time

_TABLES: Final = frozenset(
    {
        "text/csv",
        "application/json",
        "application/vnd.ms-excel",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    }
)
# Types that browsers display without executing anything. Excludes HTML, whatever it contains.
_INLINE: Final = frozenset(
    {
        "image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp",
        "application/pdf", "text/plain", "text/markdown", "text/csv", "application/json",
    }
)  # fmt: skip


class ArtifactNotFound(NotFound):
    """The artifact doesn't exist, or the caller can't see it."""

    def __init__(self) -> None:
        super().__init__("There is no artifact with this ID.")


class SessionNotFound(NotFound):
    """The session doesn't exist, or the caller may not use it."""

    def __init__(self) -> None:
        super().__init__("There is no session with this ID.")


class BytesMissing(ServiceUnavailable):
    """The artifact's bytes are missing from the object store, or its session is being deleted."""

    def __init__(self) -> None:
        message = "The artifact's content is missing from the object store."
        super().__init__(message, details=[ErrorDetail(loc=[], type=BYTES_MISSING, message=message)], retry_after=2)


@dataclass(frozen=True, slots=True)
class KnownSession:
    """The properties of a session that artifacts depend on."""

    id: str
    company_id: str
    owner_id: str
    deleted: bool = False

    def readable_by(self, caller: Identity) -> bool:
        return not self.deleted and self.company_id == caller.company_id and caller.may_read_of(self.owner_id)

    def writable_by(self, caller: Identity) -> bool:
        return not self.deleted and self.company_id == caller.company_id and caller.may_write_of(self.owner_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """A new artifact whose bytes are in the object store."""

    id: str
    session_id: str
    blob_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    origin: ArtifactOrigin
    strategy: ProcessingStrategy
    status: ProcessingStatus
    metadata: Mapping[str, Any]
    created_by: str
    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """A stored artifact. ``size`` is in bytes, and ``progress`` is a percentage."""

    id: str
    blob_id: str
    """The blob that contains the artifact's bytes, or "" if the artifact is deleted."""
    session_id: str
    company_id: str
    owner_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    origin: ArtifactOrigin
    strategy: ProcessingStrategy
    status: ProcessingStatus
    progress: int
    error: ErrorInfo | None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    platform_file_id: str | None
    created_at: datetime
    updated_at: datetime

    def record(self) -> ArtifactRecord:
        """Returns the artifact as it appears in events."""
        return ArtifactRecord(
            artifact_id=self.id,
            session_id=self.session_id,
            name=self.name,
            content_type=self.content_type,
            size=self.size,
            sha256=self.sha256,
            origin=self.origin,
            processing_strategy=self.strategy,
            processing_status=self.status,
            error=self.error,
            metadata=dict(self.metadata),
            platform_file_id=self.platform_file_id,
            created_at=format_time(self.created_at),
            updated_at=format_time(self.updated_at),
        )

    @property
    def session(self) -> KnownSession:
        return KnownSession(self.session_id, self.company_id, self.owner_id)


@dataclass(frozen=True, slots=True)
class TableJob:
    """A claimed artifact whose tables must be read. ``attempt`` counts from 1."""

    artifact: StoredArtifact
    correlation_id: str
    lease: str
    attempt: int


def strategy_of(content_type: str) -> ProcessingStrategy:
    """Returns the processing strategy for a content type."""
    if content_type.startswith("image/"):
        return "vision"
    return "structural_parsing" if content_type in _TABLES else "rag_indexing"


def is_safe_inline(content_type: str) -> bool:
    """Returns whether a browser may display files of this type instead of saving them."""
    return content_type in _INLINE
