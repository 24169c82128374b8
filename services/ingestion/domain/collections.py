"""Collections of files. A collection's status depends on the states of its files' texts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from libs.contracts.errors import NotFound
from libs.contracts.resources.collections import AvailableCollection, Collection, CollectionStatus
from libs.contracts.timestamps import format_time


class CollectionNotFound(NotFound):
    """The collection doesn't exist or belongs to another company."""

    def __init__(self) -> None:
        super().__init__("There is no collection with this ID.")


@dataclass(frozen=True, slots=True)
class Content:
    """Totals across a collection's files.

    ``total_size`` is in bytes. ``begun`` is set if parsing is running, or has ended since the files changed.
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
        """The percentage of files whose parsing has finished, rounded down."""
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
        """Returns the collection as it appears in lists for knowledge bases."""
        return AvailableCollection(
            id=self.id,
            name=self.name,
            description=self.description,
            created_at=format_time(self.created_at),
            datasource_count=self.content.files,
        )


def published_state(collection: Collection) -> dict[str, Any]:
    """Returns the fields that are derived from files. Changes to these fields are published as events."""
    return collection.model_dump(include={"status", "progress", "data_source_count", "total_size"})
