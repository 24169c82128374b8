"""What happens to files, collections and knowledge bases."""

from typing import Any

from libs.contracts.api.files import BulkReply, Collection, CollectionFilesReply, File
from libs.contracts.api.knowledge import DatasourceError, KnowledgeBase
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event
from libs.contracts.topics import INGESTION_EVENTS


class IngestionEvent(Event):
    TOPIC = INGESTION_EVENTS


class FileUploaded(IngestionEvent):
    TYPE = "aes.ingestion.file.uploaded.v1"

    file: File


class FileUpdated(IngestionEvent):
    """Tags or status of a file changed."""

    TYPE = "aes.ingestion.file.updated.v1"

    file: File


class FileDeleted(IngestionEvent):
    TYPE = "aes.ingestion.file.deleted.v1"

    file_id: str


class FilesChanged(IngestionEvent):
    """The outcome of a bulk operation, file by file."""

    TYPE = "aes.ingestion.file.bulk_changed.v1"

    operation: str
    reply: BulkReply


class CollectionCreated(IngestionEvent):
    TYPE = "aes.ingestion.collection.created.v1"

    collection: Collection


class CollectionUpdated(IngestionEvent):
    """Name, description, counts, status or progress changed."""

    TYPE = "aes.ingestion.collection.updated.v1"

    collection: Collection


class CollectionFilesAdded(IngestionEvent):
    TYPE = "aes.ingestion.collection.files_added.v1"

    collection_id: str
    reply: CollectionFilesReply


class CollectionFileRemoved(IngestionEvent):
    TYPE = "aes.ingestion.collection.file_removed.v1"

    collection_id: str
    file_id: str


class CollectionDeleted(IngestionEvent):
    TYPE = "aes.ingestion.collection.deleted.v1"

    collection_id: str


class KnowledgeBaseCreated(IngestionEvent):
    TYPE = "aes.ingestion.knowledge_base.created.v1"

    knowledge_base: KnowledgeBase


class KnowledgeBaseUpdated(IngestionEvent):
    TYPE = "aes.ingestion.knowledge_base.updated.v1"

    knowledge_base: KnowledgeBase


class KnowledgeBaseDeleted(IngestionEvent):
    """The knowledge base and its indexed content are gone; collections and files remain."""

    TYPE = "aes.ingestion.knowledge_base.deleted.v1"

    knowledge_base_id: str


class RunEvent(IngestionEvent):
    """An event of one ingestion of a knowledge base; its subject is the knowledge base."""

    knowledge_base_id: str
    ingestion_id: str


class IngestionQueued(RunEvent):
    """The ingestion was taken up; ``total_datasources`` may grow while it is planned."""

    TYPE = "aes.ingestion.knowledge_base.ingestion.queued.v1"

    total_datasources: int
    knowledge_base: KnowledgeBase | None = None


class IngestionProgress(RunEvent):
    """At most once a second. ``phase``, ``total_chunks``, ``processed_chunks`` and ``message`` in ``metadata``."""

    TYPE = "aes.ingestion.knowledge_base.ingestion.progress.v1"

    progress: int
    finished_datasources: int
    total_datasources: int
    metadata: dict[str, Any] = {}


class DatasourceFailed(RunEvent):
    TYPE = "aes.ingestion.knowledge_base.datasource.failed.v1"

    file_id: str
    file_name: str
    error: DatasourceError


class IngestionCompleted(RunEvent):
    TYPE = "aes.ingestion.knowledge_base.ingestion.completed.v1"

    datasource_count: int
    chunk_count: int


class IngestionFailed(RunEvent):
    """At least one datasource failed; what was ingested is searchable.

    Or nobody goes on with it (an error of type ``conflict_error``): an ingestion with other settings took its place,
    or the knowledge base was deleted.
    """

    TYPE = "aes.ingestion.knowledge_base.ingestion.failed.v1"

    datasource_count: int
    failed_count: int
    error: ErrorInfo


class ArtifactIndexEvent(IngestionEvent):
    """About a session's artifact; its subject is the artifact."""

    artifact_id: str
    session_id: str


class ArtifactIndexing(ArtifactIndexEvent):
    """``progress`` in percent."""

    TYPE = "aes.ingestion.artifact.indexing.v1"

    progress: int


class ArtifactIndexed(ArtifactIndexEvent):
    """Its text is extracted, and its passages can be searched."""

    TYPE = "aes.ingestion.artifact.indexed.v1"

    characters: int
    passages: int


class ArtifactIndexingFailed(ArtifactIndexEvent):
    TYPE = "aes.ingestion.artifact.indexing_failed.v1"

    error: ErrorInfo
