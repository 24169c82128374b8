"""Collections: groups of files, whose status follows what became of the files' texts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from libs.contracts.api.files import AvailableCollection, Collection, CollectionStatus
from libs.contracts.errors import NotFound
from libs.contracts.timestamps import format_time


class CollectionNotFound(NotFound):
    """There is no such collection, or none of this company."""

    def __init__(self) -> None:
        super().__init__("There is no collection with this id.")


@dataclass(frozen=True, slots=True)
class Content:
    """What is in a collection: its files, how many of their texts are made or given up, and whether any is begun.

    ``begun``: since its files changed last, work on any of their texts has begun or ended. ``total_size`` in bytes.
    """

    files: int = 0
    total_size: int = 0
    parsed: int = 0
    failed: int = 0
    begun: bool = False

    @property
    def status(self) -> CollectionStatus:
        if self.files and self.parsed + self.failed == self.files:
            return "failed" if self.failed else "completed"
        return "running" if self.files and self.begun else "pending"

    @property
    def progress(self) -> int:
        """Percent of the files whose parsing has ended, 100 only when all have."""
        return 100 * (self.parsed + self.failed) // self.files if self.files else 0


EMPTY = Content()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCollection:
    id: str
    company_id: str
    name: str
    description: str
    created_at: datetime
    updated_at: datetime
    content: Content = EMPTY

    def public(self) -> Collection:
        """The collection as it stands on the wire."""
        return Collection(
            id=self.id,
            name=self.name,
            description=self.description,
            status=self.content.status,
            progress=self.content.progress,
            data_source_count=self.content.files,
            total_size=self.content.total_size,
            created_at=format_time(self.created_at),
            updated_at=format_time(self.updated_at),
        )

    def available(self) -> AvailableCollection:
        """The collection as something to make a knowledge base from."""
        return AvailableCollection(
            id=self.id,
            name=self.name,
            description=self.description,
            created_at=format_time(self.created_at),
            datasource_count=self.content.files,
        )


def published_state(collection: Collection) -> dict[str, Any]:
    """What of a collection changes by itself: listeners are told whenever it does."""
    return collection.model_dump(include={"status", "progress", "data_source_count", "total_size"})
