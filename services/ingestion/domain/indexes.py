"""Indexes that should exist according to the database, used to inspect the engines."""

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
    """Expected content of an index. ``version`` changes with every item."""

    chunks: int
    version: str


class DocumentIndexes(Protocol):
    """Indexes of session documents. Each method has its own transaction."""

    async def in_use(self) -> Sequence[IndexPlace]:
        """Returns indexes with searchable documents."""

    async def requeue_lost(self, place: IndexPlace) -> int:
        """Queues the index's documents again and returns their number.

        They aren't searchable until they are indexed.
        """
