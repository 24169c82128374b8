"""Session artifacts as seen by agents; the artifacts service stores them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from libs.contracts.identity import Identity
from libs.contracts.resources.artifacts import Artifact, ArtifactText, Sheet
from services.runtime.domain.conversation import ArtifactPart, Citation


class SessionArtifacts(Protocol):
    """The artifacts of one session, for an authorized caller.

    All methods raise NotFound for an artifact that the caller can't see, and Conflict before it is processed. They
    raise UnsupportedMediaType if the artifact lacks the requested form, and ServiceUnavailable.
    """

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> Artifact: ...

    async def by_url(self, session_id: str, url: str, caller: Identity) -> Artifact:
        """Finds the artifact by a link of this session, even an expired one."""

    async def all(self, session_id: str, caller: Identity) -> list[Artifact]:
        """The newest 200 artifacts."""

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> ArtifactText: ...

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        """Chunks of the processed documents, best first; of all documents without ids."""

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> list[Sheet]: ...

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes: ...

    async def save(self, session_id: str, artifact_id: str, caller: Identity, place: Path) -> None:
        """Writes the artifact's bytes into a file without holding them in memory."""

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> Artifact:
        """Creates an artifact. With the same ``key`` again, returns the first one.

        Raises ValidationFailed, TooLarge or UnsupportedMediaType for unusable content.
        """


def part_of(artifact: Artifact, url: str | None = None, detail: str | None = None) -> ArtifactPart:
    """The artifact as a message part, referenced by ``url`` or by its id."""
    kind, strategy = artifact.content_type, artifact.processing_strategy
    return ArtifactPart(artifact.artifact_id, artifact.name, kind, strategy, url, detail)
