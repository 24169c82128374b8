"""The indexes that should exist according to the database, for inspections of the engines."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.ingestion.domain.artifacts import IndexPlace


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index that its engine should have.

    It's ``settled`` if it's live and over a day old, and its knowledge base has no active run.
    """

    id: str
    engine: str
    knowledge_base_id: str
    company_id: str
    settled: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """The content that an index should have. ``version`` changes whenever an item changes."""

    chunks: int
    version: str


class DocumentIndexes(Protocol):
    """The indexes of session documents. Each method has its own transaction."""

    async def in_use(self) -> Sequence[IndexPlace]:
        """Returns the indexes that contain searchable documents."""

    async def requeue_lost(self, place: IndexPlace) -> int:
        """Queues the documents of a lost index again. Returns their number.

        They aren't searchable until they've been indexed.
        """
