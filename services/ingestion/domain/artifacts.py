"""Documents of sessions. The artifacts service owns them; their texts and chunks are kept here."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from libs.contracts.api.artifacts import ArtifactRecord
from libs.contracts.errors import ErrorInfo, NotFound, ServiceUnavailable
from libs.contracts.identity import Identity
from libs.fairness import Capacity


class ArtifactNotFound(NotFound):
    """There is no such artifact, or none of this company, or it has no text."""

    def __init__(self) -> None:
        super().__init__("There is no text of an artifact with this id.")


class ArtifactBytesMissing(ServiceUnavailable):
    """The artifacts service knows the artifact and does not find its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactJob:
    """A claimed document; ``token`` is the fencing token. ``attempt`` counts from 1."""

    artifact_id: str
    company_id: str
    session_id: str
    name: str
    content_type: str
    token: str
    attempt: int
    correlation_id: str


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """The index that holds chunks."""

    engine: str
    index_id: str


@dataclass(frozen=True, slots=True)
class Placed:
    """The index of a document's chunks; ``lost``: it is gone and the document is queued again."""

    place: IndexPlace
    lost: bool = False


class ArtifactWriter(Protocol):
    """Inside one transaction, which the caller commits."""

    async def add(self, artifact: ArtifactRecord, company_id: str, correlation_id: str, owner_id: str | None) -> None:
        """Queues a document; one that is known or deleted stays as it is."""

    async def mark_deleted(self, artifact_id: str, session_id: str, company_id: str) -> None:
        """Leaves a tombstone, also for an unknown document."""


class ArtifactJobs(Protocol):
    """Each method is a transaction of its own, with the event about what it changes."""

    async def claim(self, capacity: Capacity, seconds: float) -> list[ArtifactJob]:
        """Claims waiting documents; companies take turns."""

    async def renew(self, tokens: Collection[str], seconds: float) -> None: ...

    async def postpone(self, job: ArtifactJob, seconds: float, *, counts: bool) -> None:
        """Queues the document again after ``seconds``; ``counts``: as one of few attempts."""

    async def advanced(self, job: ArtifactJob, progress: int) -> None:
        """Emits the progress in percent."""

    async def placing(self, job: ArtifactJob, place: IndexPlace) -> bool:
        """Records where chunks are about to be written; False when the document was deleted."""

    async def lost(self, place: IndexPlace) -> int:
        """Queues all documents indexed there again, behind those that wait; returns how many."""

    async def indexed(self, job: ArtifactJob, *, characters: int, chunks: int) -> bool:
        """False when the document was deleted; its chunks are removed later."""

    async def failed(self, job: ArtifactJob, error: ErrorInfo) -> None: ...

    async def leaving(self, limit: int) -> list[tuple[str, IndexPlace]]:
        """Deleted documents whose chunks may still be indexed."""

    async def left(self, artifact_ids: Sequence[str]) -> None:
        """Records that chunks and texts of these documents are removed."""

    async def postpone_removal(self, artifact_ids: Sequence[str]) -> None:
        """Puts deleted documents behind all others that are leaving."""


class ArtifactLocator(Protocol):
    async def places(self, company_id: str, artifact_ids: Collection[str]) -> dict[str, Placed]:
        """Indexes of the company's documents that are indexed, or were until the index was lost."""


class ArtifactSource(Protocol):
    """The artifacts service. Raises ``NotFound``, ``ArtifactBytesMissing`` and ``ServiceUnavailable``."""

    def content(
        self, session_id: str, artifact_id: str, caller: Identity
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The artifact's bytes; reading on may raise ``ServiceUnavailable``."""

    def as_file(self, session_id: str, artifact_id: str, company_id: str) -> AbstractAsyncContextManager[Path]:
        """The artifact as a temporary file."""


def artifact_text_key(artifact_id: str) -> str:
    """Key of the parsed text in the object store."""
    return f"artifacts/{artifact_id}/text"
