"""What artifacts need from the database and from other services."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from libs.contracts.api.artifacts import (
    ArtifactOrigin,
    ArtifactPassage,
    ArtifactSearchBody,
    ArtifactText,
    ProcessingStatus,
    ProcessingStrategy,
    Sheet,
)
from libs.contracts.errors import ErrorInfo
from libs.contracts.identity import Identity
from services.artifacts.domain.artifacts import KnownSession, StoredArtifact


class SessionOwner(Protocol):
    """The service that owns sessions."""

    async def session(self, session_id: str, caller: Identity) -> KnownSession | None:
        """None when the caller may not see it. Raises ``ServiceUnavailable``."""
        ...


class KnownSessions(Protocol):
    """The sessions that were met before, deleted ones as well."""

    async def get(self, session_id: str) -> KnownSession | None: ...

    async def remember(self, session: KnownSession) -> KnownSession:
        """The session as it is known now: it may have been deleted meanwhile."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """An artifact whose bytes are on their way."""

    id: str
    session_id: str
    name: str
    content_type: str
    origin: ArtifactOrigin
    strategy: ProcessingStrategy
    created_by: str
    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What came in: ``metadata`` is known already where nothing is left to be processed."""

    size: int
    sha256: str
    status: ProcessingStatus
    metadata: Mapping[str, Any]


class Uploads(Protocol):
    """Artifacts on their way in."""

    async def begin(self, artifact: NewArtifact) -> None: ...

    async def abandon(self, artifact_id: str) -> bool:
        """Give it up; returns whether it is given up, and not stored after all.

        Whatever lies under it is collected later.
        """
        ...


class UploadWriter(Protocol):
    """The end of an upload inside one transaction, which the caller commits."""

    async def complete(self, artifact: NewArtifact, content: Content, key: str | None) -> tuple[StoredArtifact, bool]:
        """The stored artifact, and whether it is this one: an earlier upload with the same key is given back.

        Raises ``SessionNotFound`` when the session was deleted meanwhile, ``Conflict`` when the upload was given
        up, ``ValidationFailed`` when the key was used with another file.
        """
        ...


class ArtifactReader(Protocol):
    """Artifacts as last committed; deleted ones are not there. Who may see them is the caller's business."""

    async def get(self, artifact_id: str) -> StoredArtifact | None: ...

    async def page(self, session_id: str, *, limit: int, offset: int) -> tuple[list[StoredArtifact], int]:
        """A page, newest first, and how many there are in all."""
        ...

    async def all(self, session_id: str) -> list[StoredArtifact]:
        """Every one of the session, oldest first."""
        ...


class ArtifactWriter(Protocol):
    """Changes of artifacts inside one transaction, which the caller commits. False when it is not pending any more."""

    async def progress(self, artifact_id: str, progress: int) -> bool: ...

    async def ready(self, artifact_id: str, metadata: Mapping[str, Any], *, lease: str | None = None) -> bool: ...

    async def failed(self, artifact_id: str, error: ErrorInfo, *, lease: str | None = None) -> bool: ...

    async def delete_session(self, session_id: str, company_id: str) -> list[str]:
        """Keep a tombstone of the session and of its artifacts; returns the artifacts that were there."""
        ...


@dataclass(frozen=True, slots=True)
class TableJob:
    """A claimed artifact with tables to read; ``lease`` guards its end. ``attempt`` counts from 1."""

    artifact: StoredArtifact
    correlation_id: str
    lease: str
    attempt: int


class TableJobs(Protocol):
    """Artifacts with tables that wait to be read. Each method is a transaction of its own."""

    async def claim(self, limit: int, seconds: float) -> list[TableJob]: ...

    async def renew(self, leases: Sequence[str], seconds: float) -> None: ...

    async def put_off(self, lease: str, seconds: float, *, counts: bool) -> None:
        """Try again after that time; ``counts``: as one of few attempts."""
        ...


class TableReader(Protocol):
    """Safe to repeat and to cancel."""

    async def read(self, path: Path, content_type: str) -> list[Sheet] | None:
        """The tables of a file; None when it holds none. Raises ``TableUnreadable``."""
        ...


class Documents(Protocol):
    """What became of documents in the service that indexes them. Raises ``ServiceUnavailable``."""

    async def text(self, artifact_id: str, caller: Identity, *, offset: int, limit: int) -> ArtifactText: ...

    async def search(
        self, artifact_ids: Sequence[str], caller: Identity, body: ArtifactSearchBody
    ) -> list[ArtifactPassage]: ...


class Leftovers(Protocol):
    """Bytes that nothing refers to any more. Each method is a transaction of its own."""

    async def give_up(self) -> int:
        """Give up uploads that have not ended for long; returns how many."""
        ...

    async def deleted(self, limit: int) -> list[str]:
        """Artifacts that were deleted and whose bytes may still be there."""
        ...

    async def given_up(self, limit: int) -> list[str]:
        """Artifacts that were given up or deleted long enough ago that nobody writes to them any more."""
        ...

    async def emptied(self, artifact_ids: Sequence[str]) -> None:
        """The bytes of deleted artifacts are removed; they are looked at once more later."""
        ...

    async def forget(self, artifact_ids: Sequence[str]) -> None:
        """Nothing is left of them in the object store, nor will there be."""
        ...

    async def forget_keys(self, days: int) -> int:
        """Idempotency keys of uploads that are older; returns how many there were."""
        ...
