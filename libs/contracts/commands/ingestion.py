"""Commands to the ingestion service."""

from typing import Any

from libs.contracts.events.ingestion import (
    CollectionCreated,
    CollectionDeleted,
    CollectionFileRemoved,
    CollectionFilesAdded,
    CollectionUpdated,
    FileDeleted,
    FilesChanged,
    FileUploaded,
    IngestionQueued,
    KnowledgeBaseCreated,
    KnowledgeBaseDeleted,
    KnowledgeBaseUpdated,
)
from libs.contracts.messages import Command


class DeleteFile(Command, type="aes.ingestion.delete_file.v1", outcomes=(FileDeleted,), subject="file_id"):
    file_id: str


class CopyArtifact(Command, type="aes.ingestion.copy_artifact.v1", outcomes=(FileUploaded,)):
    """Copy an artifact to a new file with this ID. Its bytes are fetched from the artifacts service."""

    file_id: str
    artifact_id: str
    session_id: str
    name: str
    content_type: str


class ChangeFiles(Command, type="aes.ingestion.change_files.v1", outcomes=(FilesChanged,)):
    """Apply one operation to many files. Each file succeeds or fails on its own."""

    operation: str
    file_ids: list[str]
    tags: list[str] | None = None
    status: str | None = None


class CreateCollection(Command, type="aes.ingestion.create_collection.v1", outcomes=(CollectionCreated,)):
    collection_id: str
    name: str
    description: str = ""


class UpdateCollection(
    Command, type="aes.ingestion.update_collection.v1", outcomes=(CollectionUpdated,), subject="collection_id"
):
    collection_id: str
    name: str | None = None
    description: str | None = None


class DeleteCollection(
    Command, type="aes.ingestion.delete_collection.v1", outcomes=(CollectionDeleted,), subject="collection_id"
):
    """Delete a collection. Its files remain."""

    collection_id: str


class AddCollectionFiles(
    Command, type="aes.ingestion.add_collection_files.v1", outcomes=(CollectionFilesAdded,), subject="collection_id"
):
    collection_id: str
    file_ids: list[str]


class RemoveCollectionFile(
    Command, type="aes.ingestion.remove_collection_file.v1", outcomes=(CollectionFileRemoved,), subject="collection_id"
):
    collection_id: str
    file_id: str


class CreateKnowledgeBase(Command, type="aes.ingestion.create_knowledge_base.v1", outcomes=(KnowledgeBaseCreated,)):
    """``settings`` is a ``CreateKnowledgeBaseBody``."""

    knowledge_base_id: str
    settings: dict[str, Any]


class UpdateKnowledgeBase(
    Command,
    type="aes.ingestion.update_knowledge_base.v1",
    outcomes=(KnowledgeBaseUpdated,),
    subject="knowledge_base_id",
):
    """``changes`` is an ``UpdateKnowledgeBaseBody``; fields left out stay as they are.

    ``add_file_ids`` and ``remove_file_ids`` change the list, whatever is in it by then. ``ingest`` begins an ingestion.
    """

    knowledge_base_id: str
    changes: dict[str, Any]
    add_file_ids: list[str] = []
    remove_file_ids: list[str] = []
    ingest: bool = False


class DeleteKnowledgeBase(
    Command,
    type="aes.ingestion.delete_knowledge_base.v1",
    outcomes=(KnowledgeBaseDeleted,),
    subject="knowledge_base_id",
):
    knowledge_base_id: str


class IngestKnowledgeBase(
    Command, type="aes.ingestion.ingest_knowledge_base.v1", outcomes=(IngestionQueued,), subject="knowledge_base_id"
):
    """Index new, changed and failed files; remove files that are no longer in the knowledge base."""

    knowledge_base_id: str
