"""Session artifacts as agents see them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import Artifact, ArtifactText, Sheet
from services.runtime.domain.conversation import ArtifactPart, Citation


class SessionArtifacts(Protocol):
    """Reads, searches and creates artifacts of sessions, with the permissions of a caller.

    Methods raise NotFound if the caller can't see the artifact, Conflict while it's being processed,
    UnsupportedMediaType if it doesn't have the requested form, and ServiceUnavailable during an outage.
    """

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> Artifact: ...

    async def by_url(self, session_id: str, url: str, caller: Identity) -> Artifact:
        """Returns the artifact that a link from this session refers to, even if the link has expired."""

    async def all(self, session_id: str, caller: Identity) -> list[Artifact]:
        """Returns the session's 200 newest artifacts."""

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> ArtifactText: ...

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        """Returns the best-matching chunks, best first. If ``artifact_ids`` is None, searches all documents."""

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> list[Sheet]: ...

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes: ...

    async def save(self, session_id: str, artifact_id: str, caller: Identity, path: Path) -> None:
        """Writes the artifact's bytes to the file ``path``."""

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> Artifact:
        """Creates an artifact. Another call with the same ``key`` returns the same artifact.

        Raises ValidationFailed, TooLarge or UnsupportedMediaType if the content can't be stored.
        """


def part_of(artifact: Artifact, url: str | None = None, detail: str | None = None) -> ArtifactPart:
    """Converts the artifact to a message part that refers to it by ``url`` or, without one, by ID."""
    kind, strategy = artifact.content_type, artifact.processing_strategy
    return ArtifactPart(artifact.artifact_id, artifact.name, kind, strategy, url, detail)
