"""Documents of sessions, which another service keeps: their texts and passages are kept here."""

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from libs.contracts.api.artifacts import ArtifactRecord
from libs.contracts.errors import ErrorInfo, NotFound, ServiceUnavailable
from libs.contracts.identity import Identity


class ArtifactNotFound(NotFound):
    """There is no such artifact, or none of this company, or it has no text."""

    def __init__(self) -> None:
        super().__init__("There is no text of an artifact with this id.")


class ArtifactBytesMissing(ServiceUnavailable):
    """The service that keeps artifacts knows it, and does not find its bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactJob:
    """A document that somebody has claimed; ``token`` guards its end. ``attempt`` counts from 1."""

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
    """Where chunks are."""

    engine: str
    index_id: str


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a document's chunks are; ``lost``: were, and will be again."""

    place: IndexPlace
    lost: bool = False


class ArtifactWriter(Protocol):
    """Inside one transaction, which the caller commits."""

    async def add(self, artifact: ArtifactRecord, company_id: str, correlation_id: str) -> None:
        """A document that is to be indexed; one that is known, or was deleted before, stays as it is."""
        ...

    async def mark_deleted(self, artifact_id: str, session_id: str, company_id: str) -> None:
        """It is deleted, whether it is known or not."""
        ...


class ArtifactJobs(Protocol):
    """Each method is a transaction of its own, with the event about what it changes."""

    async def claim(self, limit: int, seconds: float) -> list[ArtifactJob]: ...

    async def renew(self, tokens: Collection[str], seconds: float) -> None: ...

    async def postpone(self, job: ArtifactJob, seconds: float, *, counts: bool) -> None:
        """Try again after that time; ``counts``: as one of few attempts."""
        ...

    async def advanced(self, job: ArtifactJob, progress: int) -> None:
        """Tell how far it is, in percent."""
        ...

    async def placing(self, job: ArtifactJob, place: IndexPlace) -> bool:
        """Chunks are about to be written there; False when the document is not wanted any more."""
        ...

    async def lost(self, place: IndexPlace) -> int:
        """Have all that are indexed there indexed again, after those that wait; returns how many that are."""
        ...

    async def indexed(self, job: ArtifactJob, *, characters: int, passages: int) -> bool:
        """False when the document is not wanted any more; what was written is removed later."""
        ...

    async def failed(self, job: ArtifactJob, error: ErrorInfo) -> None: ...

    async def leaving(self, limit: int) -> list[tuple[str, IndexPlace]]:
        """Deleted documents whose chunks may still be there."""
        ...

    async def left(self, artifact_ids: Sequence[str]) -> None:
        """Nothing of them is left."""
        ...


class ArtifactPlaces(Protocol):
    async def places(self, company_id: str, artifact_ids: Collection[str]) -> dict[str, Placed]:
        """Where the chunks of those documents are that are indexed, or were until they were lost, of that company."""
        ...


class ArtifactSource(Protocol):
    """The service that keeps artifacts. Raises ``NotFound``, ``ArtifactBytesMissing`` and ``ServiceUnavailable``."""

    def content(
        self, session_id: str, artifact_id: str, caller: Identity
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The artifact's bytes; reading on may raise ``ServiceUnavailable``."""
        ...

    def as_file(self, session_id: str, artifact_id: str, company_id: str) -> AbstractAsyncContextManager[Path]:
        """The artifact as a file to read, for as long as the context lasts."""
        ...


def artifact_text_key(artifact_id: str) -> str:
    """Where the parsed text lies in the object store."""
    return f"artifacts/{artifact_id}/text"
