"""Collections: groups of files."""

from typing import Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from libs.contracts.messages import Command, Event
from libs.contracts.models import Name, StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.resources.files import FileIds, FileResult
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": None}

CollectionStatus = Literal["pending", "running", "completed", "failed"]


class CreateCollectionBody(StrictModel):
    """The body of ``POST /collections/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"documents": {"name": "Handbooks", "description": "What customers ask about"}}

    name: Name
    description: str = Field(default="", max_length=10_000)


class UpdateCollectionBody(StrictModel):
    """The body of ``PATCH /collections/{id}/``. Omitted fields keep their values."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"another name": {"name": "Manuals"}}

    name: Name | None = None
    description: str | None = Field(default=None, max_length=10_000)


class Collection(BaseModel):
    """A group of files. ``status`` and ``progress`` describe the parsing of its files; ``total_size`` is in bytes."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a file": {
            "id": "01980f4f-7a53-738b-a4a5-92a3b4c5d6eb",
            "name": "Passenger documents",
            "description": "What passengers may ask about",
            "status": "completed",
            "progress": 100,
            "data_source_count": 1,
            "total_size": 18423,
            "created_at": "2026-05-04T08:14:05.310022Z",
            "updated_at": "2026-05-04T08:14:12.004411Z",
        },
        "parsing": {
            "id": "01980f4f-7a53-738b-a4a5-92a3b4c5d6eb",
            "name": "Passenger documents",
            "description": "What passengers may ask about",
            "status": "pending",
            "progress": 0,
            "data_source_count": 0,
            "total_size": 0,
            "created_at": "2026-05-04T08:14:05.310022Z",
            "updated_at": "2026-05-04T08:14:05.310022Z",
        },
    }

    id: str
    name: str
    description: str
    status: CollectionStatus
    progress: int
    data_source_count: int
    total_size: int
    created_at: Timestamp
    updated_at: Timestamp


class CollectionPage(ListPage):
    collections: list[Collection]


class CollectionFilesBody(StrictModel):
    """The body of ``POST /collections/{id}/files/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"one file": {"file_ids": ["01980f4f-6f42-727a-9394-8192a3b4c5da"]}}
    file_ids: FileIds


class CollectionFilesReply(BaseModel):
    """The result for each file. ``added`` and ``failed`` don't count files that were already in the collection."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "one file": {
            "success": True,
            "added": 1,
            "failed": 0,
            "results": [{"file_id": "01980f4f-6f42-727a-9394-8192a3b4c5da", "status": "added"}],
        }
    }

    success: bool
    added: int
    failed: int
    results: list[FileResult]


class AvailableCollection(BaseModel):
    """A collection that a knowledge base can use."""

    id: str
    name: str
    description: str
    created_at: Timestamp
    datasource_count: int


class AvailableCollections(BaseModel):
    """The collections that a knowledge base can use."""

    success: bool
    collections: list[AvailableCollection]
    count: int


class CollectionCreated(Event, type="aes.ingestion.collection.created.v1"):
    """A collection was created."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"parsing": {"collection": Collection.EXAMPLES["parsing"]}}

    collection: Collection


class CollectionUpdated(Event, type="aes.ingestion.collection.updated.v1"):
    """A collection's name, description, counts, status or progress changed."""

    collection: Collection


class CollectionFilesAdded(Event, type="aes.ingestion.collection.files_added.v1"):
    """Files were added to a collection."""

    collection_id: str
    reply: CollectionFilesReply


class CollectionFileRemoved(Event, type="aes.ingestion.collection.file_removed.v1"):
    """A file was removed from a collection. The file itself remains."""

    collection_id: str
    file_id: str


class CollectionDeleted(Event, type="aes.ingestion.collection.deleted.v1"):
    """A collection was deleted. Its files remain."""

    collection_id: str


class CreateCollection(Command, type="aes.ingestion.create_collection.v1", outcomes=(CollectionCreated,)):
    """Create a collection."""

    EXAMPLES: ClassVar[dict[str, Any]] = CreateCollectionBody.EXAMPLES

    collection_id: str
    name: Name
    description: str = ""


class UpdateCollection(
    Command, type="aes.ingestion.update_collection.v1", outcomes=(CollectionUpdated,), subject="collection_id"
):
    """Change a collection's name or description."""

    EXAMPLES: ClassVar[dict[str, Any]] = UpdateCollectionBody.EXAMPLES

    collection_id: str
    name: Name | None = None
    description: str | None = None


class DeleteCollection(
    Command, type="aes.ingestion.delete_collection.v1", outcomes=(CollectionDeleted,), subject="collection_id"
):
    """Delete a collection. Its files remain."""

    collection_id: str


class AddCollectionFiles(
    Command, type="aes.ingestion.add_collection_files.v1", outcomes=(CollectionFilesAdded,), subject="collection_id"
):
    """Add files to a collection."""

    EXAMPLES: ClassVar[dict[str, Any]] = CollectionFilesBody.EXAMPLES

    collection_id: str
    file_ids: list[str]


class RemoveCollectionFile(
    Command, type="aes.ingestion.remove_collection_file.v1", outcomes=(CollectionFileRemoved,), subject="collection_id"
):
    """Remove a file from a collection. The file itself remains."""

    collection_id: str
    file_id: str
