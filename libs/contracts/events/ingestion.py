"""Events of the ingestion service: files, collections and knowledge bases."""

from typing import Any

from libs.contracts.api.files import BulkReply, Collection, CollectionFilesReply, File
from libs.contracts.api.knowledge import DatasourceError, KnowledgeBase
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event


class FileUploaded(Event, type="aes.ingestion.file.uploaded.v1"):
    file: File


class FileUpdated(Event, type="aes.ingestion.file.updated.v1"):
    """Tags or status of a file changed."""

    file: File


class FileDeleted(Event, type="aes.ingestion.file.deleted.v1"):
    file_id: str


class FilesChanged(Event, type="aes.ingestion.file.bulk_changed.v1"):
    """The outcome of a bulk operation, file by file."""

    operation: str
    reply: BulkReply


class CollectionCreated(Event, type="aes.ingestion.collection.created.v1"):
    collection: Collection


class CollectionUpdated(Event, type="aes.ingestion.collection.updated.v1"):
    """Name, description, counts, status or progress changed."""

    collection: Collection


class CollectionFilesAdded(Event, type="aes.ingestion.collection.files_added.v1"):
    collection_id: str
    reply: CollectionFilesReply


class CollectionFileRemoved(Event, type="aes.ingestion.collection.file_removed.v1"):
    collection_id: str
    file_id: str


class CollectionDeleted(Event, type="aes.ingestion.collection.deleted.v1"):
    collection_id: str


class KnowledgeBaseCreated(Event, type="aes.ingestion.knowledge_base.created.v1"):
    knowledge_base: KnowledgeBase


class KnowledgeBaseUpdated(Event, type="aes.ingestion.knowledge_base.updated.v1"):
    knowledge_base: KnowledgeBase


class KnowledgeBaseDeleted(Event, type="aes.ingestion.knowledge_base.deleted.v1"):
    """The knowledge base and its indexes are deleted. Collections and files remain."""

    knowledge_base_id: str


class RunEvent(Event):
    """An event of one ingestion of a knowledge base; its subject is the knowledge base."""

    knowledge_base_id: str
    ingestion_id: str


class IngestionQueued(RunEvent, type="aes.ingestion.knowledge_base.ingestion.queued.v1"):
    """The ingestion is queued. ``total_datasources`` may grow while its files are being listed."""

    total_datasources: int
    knowledge_base: KnowledgeBase | None = None


class IngestionProgress(RunEvent, type="aes.ingestion.knowledge_base.ingestion.progress.v1"):
    """The progress of an ingestion, at most once a second.

    ``metadata`` has ``phase``, ``total_chunks``, ``processed_chunks`` and ``message``.
    """

    progress: int
    finished_datasources: int
    total_datasources: int
    metadata: dict[str, Any] = {}


class DatasourceFailed(RunEvent, type="aes.ingestion.knowledge_base.datasource.failed.v1"):
    file_id: str
    file_name: str
    error: DatasourceError


class IngestionCompleted(RunEvent, type="aes.ingestion.knowledge_base.ingestion.completed.v1"):
    datasource_count: int
    chunk_count: int


class IngestionFailed(RunEvent, type="aes.ingestion.knowledge_base.ingestion.failed.v1"):
    """At least one datasource failed; what was ingested is searchable.

    An error of type ``conflict_error`` means that it was abandoned: an ingestion with other settings replaced it, or
    the knowledge base was deleted.
    """

    datasource_count: int
    failed_count: int
    error: ErrorInfo


class ArtifactIndexEvent(Event):
    """An event about a session's artifact. Its subject is the artifact."""

    artifact_id: str
    session_id: str


class ArtifactIndexing(ArtifactIndexEvent, type="aes.ingestion.artifact.indexing.v1"):
    """The progress of indexing an artifact, in percent."""

    progress: int


class ArtifactIndexed(ArtifactIndexEvent, type="aes.ingestion.artifact.indexed.v1"):
    """The artifact's text is extracted and its passages can be searched."""

    characters: int
    passages: int


class ArtifactIndexingFailed(ArtifactIndexEvent, type="aes.ingestion.artifact.indexing_failed.v1"):
    error: ErrorInfo
