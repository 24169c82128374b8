"""What the ingestion service is asked to do."""

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
from libs.contracts.topics import INGESTION_COMMANDS


class IngestionCommand(Command):
    TOPIC = INGESTION_COMMANDS


class DeleteFile(IngestionCommand):
    TYPE = "aes.ingestion.delete_file.v1"
    OUTCOMES = (FileDeleted,)

    file_id: str


class CopyArtifact(IngestionCommand):
    """Make a file of an artifact, with this id; its bytes are fetched from the artifacts service."""

    TYPE = "aes.ingestion.copy_artifact.v1"
    OUTCOMES = (FileUploaded,)

    file_id: str
    artifact_id: str
    session_id: str
    name: str
    content_type: str


class ChangeFiles(IngestionCommand):
    """A bulk operation: each file on its own, with partial success."""

    TYPE = "aes.ingestion.change_files.v1"
    OUTCOMES = (FilesChanged,)

    operation: str
    file_ids: list[str]
    tags: list[str] | None = None
    status: str | None = None


class CreateCollection(IngestionCommand):
    TYPE = "aes.ingestion.create_collection.v1"
    OUTCOMES = (CollectionCreated,)

    collection_id: str
    name: str
    description: str = ""


class UpdateCollection(IngestionCommand):
    TYPE = "aes.ingestion.update_collection.v1"
    OUTCOMES = (CollectionUpdated,)

    collection_id: str
    name: str | None = None
    description: str | None = None


class DeleteCollection(IngestionCommand):
    """Its files remain."""

    TYPE = "aes.ingestion.delete_collection.v1"
    OUTCOMES = (CollectionDeleted,)

    collection_id: str


class AddCollectionFiles(IngestionCommand):
    TYPE = "aes.ingestion.add_collection_files.v1"
    OUTCOMES = (CollectionFilesAdded,)

    collection_id: str
    file_ids: list[str]


class RemoveCollectionFile(IngestionCommand):
    TYPE = "aes.ingestion.remove_collection_file.v1"
    OUTCOMES = (CollectionFileRemoved,)

    collection_id: str
    file_id: str


class CreateKnowledgeBase(IngestionCommand):
    """``settings`` is a ``CreateKnowledgeBaseBody``."""

    TYPE = "aes.ingestion.create_knowledge_base.v1"
    OUTCOMES = (KnowledgeBaseCreated,)

    knowledge_base_id: str
    settings: dict[str, Any]


class UpdateKnowledgeBase(IngestionCommand):
    """``changes`` is an ``UpdateKnowledgeBaseBody``; fields left out stay as they are."""

    TYPE = "aes.ingestion.update_knowledge_base.v1"
    OUTCOMES = (KnowledgeBaseUpdated,)

    knowledge_base_id: str
    changes: dict[str, Any]


class DeleteKnowledgeBase(IngestionCommand):
    TYPE = "aes.ingestion.delete_knowledge_base.v1"
    OUTCOMES = (KnowledgeBaseDeleted,)

    knowledge_base_id: str


class IngestKnowledgeBase(IngestionCommand):
    """Take up what is new, changed or failed, drop what was taken out."""

    TYPE = "aes.ingestion.ingest_knowledge_base.v1"
    OUTCOMES = (IngestionQueued,)

    knowledge_base_id: str
