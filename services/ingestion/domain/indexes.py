"""Indexes according to the database, for their inspection."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.ingestion.domain.artifacts import IndexPlace


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index that its engine should have. ``settled``: no run is writing to it or has done so recently."""

    id: str
    engine: str
    knowledge_base_id: str
    company_id: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """Expected content of an index; ``version`` changes with every item."""

    chunks: int
    version: str


class DocumentIndexes(Protocol):
    """Indexes of session documents. Each method has its own transaction."""

    async def in_use(self) -> Sequence[IndexPlace]:
        """Indexes with searchable documents."""

    async def requeue_lost(self, place: IndexPlace) -> int:
        """Queues the index's documents again, which aren't searchable until then. Returns their number."""
