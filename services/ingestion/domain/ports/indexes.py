"""What the inspection of indexes needs to know: which there should be, and what in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.ingestion.domain.artifacts import IndexPlace


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index of a knowledge base that its engine should have. ``settled``: nobody writes to it, and not lately."""

    id: str
    engine: str
    knowledge_base_id: str
    company_id: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """What should be in an index; ``version`` is another one as soon as any of its items changes."""

    chunks: int
    version: str


class IndexCatalog(Protocol):
    """Indexes of knowledge bases as the database knows them."""

    async def known(self) -> list[KnownIndex]: ...

    async def content(self, index_id: str) -> Content: ...


class DocumentIndexes(Protocol):
    """Indexes of documents of sessions. Each method is a transaction of its own."""

    async def in_use(self) -> Sequence[IndexPlace]:
        """Where documents are that can be searched."""
        ...

    async def lost(self, place: IndexPlace) -> int:
        """Have its documents indexed again; until then their search is an outage. Returns how many they are."""
        ...
