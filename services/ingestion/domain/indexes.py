"""The indexes that engines should have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.ingestion.domain.artifacts import IndexRef


@dataclass(frozen=True, slots=True)
class KnownIndex:
    """An index that its engine should have.

    A ``settled`` index is live and over a day old, and its knowledge base has no active run.
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

    async def in_use(self) -> Sequence[IndexRef]:
        """Returns the indexes that contain searchable documents."""

    async def requeue_lost(self, index: IndexRef) -> int:
        """Queues the documents of a lost index again. Returns the number of documents."""
