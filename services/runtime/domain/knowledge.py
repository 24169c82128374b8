"""Retrieval from knowledge bases. The ingestion service stores them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.identity import Identity
from services.runtime.domain.conversation import Citation


@dataclass(frozen=True, slots=True)
class KnowledgeBaseRef:
    """A knowledge base attached to an agent. Fields that are None use the knowledge base's defaults."""

    id: str
    top_k: int | None = None
    mode: str | None = None
    min_score: float | None = None


@dataclass(frozen=True, slots=True)
class Retrieved:
    """Chunks, best first, and a warning for each knowledge base that couldn't be searched."""

    chunks: tuple[Citation, ...] = ()
    warnings: tuple[str, ...] = ()


class KnowledgeRetriever(Protocol):
    async def retrieve(self, query: str, knowledge_bases: Sequence[KnowledgeBaseRef], caller: Identity) -> Retrieved:
        """Retrieves chunks for `query` from all of `knowledge_bases`, best first.

        If a knowledge base was deleted or times out, adds a warning, and the turn continues without it. Safe to retry.
        """
