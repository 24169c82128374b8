"""Retrieval from knowledge bases."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.identity import Identity
from services.runtime.domain.conversation import Citation


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRef:
    """A knowledge base that an agent uses. Fields that are None default to the knowledge base's settings."""

    id: str
    top_k: int | None = None
    mode: str | None = None
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The retrieved chunks, best first, and a warning for each knowledge base that couldn't be searched."""

    chunks: tuple[Citation, ...] = ()
    warnings: tuple[str, ...] = ()


class KnowledgeRetriever(Protocol):
    async def retrieve(self, query: str, knowledge_bases: Sequence[KnowledgeBaseRef], caller: Identity) -> Retrieved:
        """Returns the chunks that match `query`, and warnings about knowledge bases that can't be searched."""
