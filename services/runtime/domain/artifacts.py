"""What the runtime asks of session artifacts; the artifacts service answers it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from libs.contracts.identity import Identity
from services.runtime.domain.conversation import ArtifactPart, Citation


@dataclass(frozen=True, slots=True)
class ArtifactFacts:
    """An artifact's record, as far as agents need it. ``problem`` says why its processing failed.

    ``characters`` of a document's text, None while that is not known; ``size`` in bytes.
    """

    id: str
    name: str
    content_type: str
    size: int
    strategy: str
    status: str
    problem: str | None = None
    characters: int | None = None

    def part(self, url: str | None = None) -> ArtifactPart:
        """As a part of a message, in which it was named by ``url`` if by any."""
        return ArtifactPart(self.id, self.name, self.content_type, self.strategy, url)


@dataclass(frozen=True, slots=True)
class TextPortion:
    """A document's text from ``offset`` on; ``characters`` in all."""

    text: str
    offset: int
    characters: int


@dataclass(frozen=True, slots=True)
class Table:
    """The structure of one sheet: its columns, its first rows, and how many rows there are."""

    name: str
    headers: tuple[str, ...]
    types: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    row_count: int


class SessionArtifacts(Protocol):
    """The artifacts of one session, for someone who may use it.

    Everything raises NotFound for what is not there for this caller, Conflict while it is not processed,
    UnsupportedMediaType when the artifact has no such side, and ServiceUnavailable.
    """

    async def get(self, session_id: str, artifact_id: str, caller: Identity) -> ArtifactFacts: ...

    async def by_url(self, session_id: str, url: str, caller: Identity) -> ArtifactFacts:
        """The artifact that a link of this session stands for, an expired one as well."""
        ...

    async def all(self, session_id: str, caller: Identity) -> list[ArtifactFacts]:
        """The newest 200."""
        ...

    async def text(
        self, session_id: str, artifact_id: str, caller: Identity, *, offset: int, limit: int
    ) -> TextPortion: ...

    async def search(
        self, session_id: str, query: str, caller: Identity, *, artifact_ids: Sequence[str] | None, top_k: int
    ) -> tuple[Citation, ...]:
        """Passages of the documents that are processed, best first; of all of them when no ids are given."""
        ...

    async def tables(self, session_id: str, artifact_id: str, caller: Identity, *, rows: int) -> tuple[Table, ...]: ...

    async def content(self, session_id: str, artifact_id: str, caller: Identity) -> bytes: ...

    async def save(self, session_id: str, artifact_id: str, caller: Identity, place: Path) -> None:
        """Its bytes into a file, without holding them."""
        ...

    async def create(self, session_id: str, caller: Identity, *, name: str, key: str, content: bytes) -> ArtifactFacts:
        """A generated artifact. With the same ``key`` again: the same one, nothing new.

        Raises ValidationFailed, TooLarge or UnsupportedMediaType for what cannot be one.
        """
        ...
