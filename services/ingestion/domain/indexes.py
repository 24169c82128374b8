"""Indexes as the database knows them, for their inspection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.ingestion.domain.artifacts import IndexPlace


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index that its engine should have. ``settled``: no run writes to it or did so recently."""

    id: str
    engine: str
    knowledge_base_id: str
    company_id: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """Expected content of an index; ``version`` changes with any of its items."""

    chunks: int
    version: str


class DocumentIndexes(Protocol):
    """Indexes of documents of sessions. Each method is a transaction of its own."""

    async def in_use(self) -> Sequence[IndexPlace]:
        """Indexes with searchable documents."""

    async def lost(self, place: IndexPlace) -> int:
        """Queues its documents again, which cannot be searched until then. Returns how many."""
