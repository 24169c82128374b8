"""Session artifacts as seen by agents. The artifacts service stores them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import Artifact, ArtifactText, Sheet
from services.runtime.domain.conversation import ArtifactPart, Citation


class SessionArtifacts(Protocol):
    """The artifacts of one session, for an authorized caller.

    All methods raise NotFound for an artifact that the caller can't see, and Conflict until it's processed. They raise
    UnsupportedMediaType if the artifact isn't available in the requested form, and ServiceUnavailable.
    """

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> Artifact: ...

    async def by_url(self, session_id: str, url: str, caller: Identity) -> Artifact:
        """Finds the artifact by a link from this session, even if the link has expired."""

    async def all(self, session_id: str, caller: Identity) -> list[Artifact]:
        """Returns the newest 200 artifacts."""

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> ArtifactText: ...

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        """Returns the best-matching chunks of processed documents, best first. Searches all of them without ids."""

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> list[Sheet]: ...

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes: ...

    async def save(self, session_id: str, artifact_id: str, caller: Identity, place: Path) -> None:
        """Writes the artifact's bytes to a file without holding them in memory."""

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> Artifact:
        """Creates an artifact. A repeated call with the same ``key`` returns the first artifact.

        Raises ValidationFailed, TooLarge or UnsupportedMediaType if the content can't be stored.
        """


def part_of(artifact: Artifact, url: str | None = None, detail: str | None = None) -> ArtifactPart:
    """Returns the artifact as a message part that references it by ``url`` or by ID."""
    kind, strategy = artifact.content_type, artifact.processing_strategy
    return ArtifactPart(artifact.artifact_id, artifact.name, kind, strategy, url, detail)
