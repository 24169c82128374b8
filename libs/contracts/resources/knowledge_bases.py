"""Knowledge bases, with their ingestion and search."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field, model_validator

from libs.contracts.citations import Citation
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import BodyCommand, Command, Event
from libs.contracts.models import Id, Name, SearchMode, StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.resources.files import FileStatus
from libs.contracts.timestamps import Timestamp

EXAMPLE_ENVELOPE: Final = {"owner_id": None}

Engine = Literal["pgvector", "weaviate"]
KnowledgeBaseStatus = Literal["pending", "running", "completed", "failed"]
Phase = Literal["queued", "parsing", "chunking", "embedding", "indexing"]
Strategy = Literal["recursive", "fixed_size", "sentence", "paragraph", "page", "markdown", "row"]
SplitBy = Literal["token", "word", "sentence", "passage", "page", "line", "character"]


class ChunkingStrategy(StrictModel):
    """Settings for splitting documents into chunks. ``chunk_size`` and ``chunk_overlap`` are in units of ``split_by``.

    ``chunk_overlap`` defaults to an eighth of ``chunk_size``, but no more than 64.
    """

    strategy: Strategy = "recursive"
    chunk_size: int = Field(default=512, ge=1, le=100_000)
    chunk_overlap: int = Field(
        default_factory=lambda known: min(64, known.get("chunk_size", 512) // 8), ge=0, le=50_000
    )
    split_by: SplitBy = "token"
    recursive_separators: list[Annotated[str, Field(min_length=1, max_length=100)]] = Field(
        default=["\n\n", "\n", ". ", " "], max_length=20
    )

    @model_validator(mode="after")
    def _overlap_fits(self) -> "ChunkingStrategy":
        if self.chunk_overlap >= self.chunk_size and self.chunk_overlap > 0:
            raise ValueError("chunk_overlap must be smaller than chunk_size")
        return self


class EmbeddingConfig(StrictModel):
    """Embedding settings. ``provider`` is ``wordllama`` (in process) or ``openai`` (any OpenAI-compatible server)."""

    provider: str = Field(default="wordllama", min_length=1, max_length=100)
    model: str = Field(default="", max_length=200)
    dimensions: int | None = Field(default=None, ge=1, le=16_000)


class CreateKnowledgeBaseBody(StrictModel):
    """The body of ``POST /knowledge-bases/``. ``ingest: false`` postpones the first ingestion.

    ``processing_engine`` defaults to the installation's engine.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "from a collection": {"name": "Handbooks", "collection_ids": ["01980f4f-7a53-738b-a4a5-92a3b4c5d6eb"]},
        "with settings": {
            "name": "Handbooks",
            "file_ids": ["01980f4f-6f42-727a-9394-8192a3b4c5da"],
            "processing_engine": "pgvector",
            "chunking_strategy": {"strategy": "sentence", "chunk_size": 200, "chunk_overlap": 20, "split_by": "word"},
            "embedding_config": {"provider": "wordllama"},
        },
    }

    name: Name
    description: str = Field(default="", max_length=10_000)
    collection_ids: list[Id] = Field(default=[], max_length=1000)
    file_ids: list[Id] = Field(default=[], max_length=1000)
    processing_engine: Engine | None = None
    chunking_strategy: ChunkingStrategy = ChunkingStrategy()
    embedding_config: EmbeddingConfig = EmbeddingConfig()
    llm_config: dict[str, Any] = {}
    ingest: bool = True


class UpdateKnowledgeBaseBody(StrictModel):
    """The body of ``PATCH /knowledge-bases/{id}/``. Omitted fields keep their values.

    Changed content and settings take effect with the next ingestion.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {"another description": {"description": "Everything for customers"}}

    name: Name | None = None
    description: str | None = Field(default=None, max_length=10_000)
    collection_ids: list[Id] | None = Field(default=None, max_length=1000)
    file_ids: list[Id] | None = Field(default=None, max_length=1000)
    processing_engine: Engine | None = None
    chunking_strategy: ChunkingStrategy | None = None
    embedding_config: EmbeddingConfig | None = None
    llm_config: dict[str, Any] | None = None


class IngestBody(StrictModel):
    """The body of an ingestion request: empty, or ``{}``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"no settings": {}}


class Datasource(BaseModel):
    """A file in a knowledge base."""

    id: str
    name: str
    type: Literal["file-upload"] = "file-upload"
    status: FileStatus = "active"


class DatasourceSnapshot(BaseModel):
    """A file in a knowledge base, with its ingestion status."""

    id: str
    name: str
    type: Literal["file-upload"] = "file-upload"
    ingestion_status: str


class DatasourceError(BaseModel):
    """The reason why a file couldn't be ingested. If ``retryable`` is true, another ingestion may succeed."""

    code: str
    message: str
    phase: str
    attempt: int
    retryable: bool


class KnowledgeBase(BaseModel):
    """A searchable set of documents. ``success_rate`` is a percentage.

    ``processing_metadata`` is empty once ``status`` is ``completed``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "being ingested": {
            "id": "01980f4f-5e31-7169-8283-708192a3b4c9",
            "name": "Passenger handbook",
            "description": "Fares, timetables and rules",
            "processing_engine": "pgvector",
            "dataset_name": "",
            "normalized_dataset_name": "passenger_handbook",
            "status": "pending",
            "progress": 0,
            "collection_ids": ["01980f4f-7a53-738b-a4a5-92a3b4c5d6eb"],
            "file_ids": [],
            "datasources": [{"id": "01980f4f-6f42-727a-9394-8192a3b4c5da", "name": "passenger-handbook.md"}],
            "datasource_count": 0,
            "total_datasources": 1,
            "ingested_datasources": [],
            "failed_datasources": [],
            "datasource_errors": {},
            "datasource_snapshots": {
                "01980f4f-6f42-727a-9394-8192a3b4c5da": {
                    "id": "01980f4f-6f42-727a-9394-8192a3b4c5da",
                    "name": "passenger-handbook.md",
                    "ingestion_status": "pending",
                }
            },
            "success_rate": 0.0,
            "chunking_strategy": {
                "strategy": "recursive",
                "chunk_size": 512,
                "chunk_overlap": 64,
                "split_by": "token",
                "recursive_separators": ["\n\n", "\n", ". ", " "],
            },
            "embedding_config": {"provider": "wordllama", "model": "l2_supercat", "dimensions": 256},
            "llm_config": {},
            "processing_metadata": {},
            "created_by_name": "Ada",
            "company_name": "Harbour Ferries",
            "created_at": "2026-05-04T08:14:08.551200Z",
            "updated_at": "2026-05-04T08:14:08.551200Z",
        }
    }

    id: str
    name: str
    description: str
    processing_engine: str
    dataset_name: str
    normalized_dataset_name: str
    status: KnowledgeBaseStatus
    progress: int
    collection_ids: list[str]
    file_ids: list[str]
    datasources: list[Datasource]
    datasource_count: int
    total_datasources: int
    ingested_datasources: list[Datasource]
    failed_datasources: list[Datasource]
    datasource_errors: dict[str, DatasourceError]
    datasource_snapshots: dict[str, DatasourceSnapshot]
    success_rate: float
    chunking_strategy: dict[str, Any]
    embedding_config: dict[str, Any]
    llm_config: dict[str, Any]
    processing_metadata: dict[str, Any]
    created_by_name: str
    company_name: str
    created_at: Timestamp
    updated_at: Timestamp


class KnowledgeBasePage(ListPage):
    knowledge_bases: list[KnowledgeBase]


class KnowledgeBaseState(BaseModel):
    """The response to a status request. ``status_updated`` is true if the status changed since your last request."""

    success: bool = True
    message: str
    knowledge_base: KnowledgeBase
    status_updated: bool


class SearchFilters(StrictModel):
    """Restricts a search to files that match every filter you set: collections, IDs and tags."""

    collection_ids: list[Id] = Field(default=[], max_length=100)
    file_ids: list[Id] = Field(default=[], max_length=1000)
    tags: list[str] = Field(default=[], max_length=100)


class SearchBody(StrictModel):
    """The body of ``POST /knowledge-bases/{id}/search/``."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "hybrid": {"query": "How much is a ticket?"},
        "keyword search in one collection": {
            "query": "ticket price",
            "mode": "keyword",
            "top_k": 3,
            "filters": {"collection_ids": ["01980f4f-7a53-738b-a4a5-92a3b4c5d6eb"]},
        },
    }

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    mode: SearchMode = "hybrid"
    top_k: int = Field(default=5, ge=1, le=100)
    min_score: float | None = Field(default=None, ge=0, le=1)
    filters: SearchFilters = SearchFilters()


class SearchReply(BaseModel):
    """The passages found by a search, best first. ``score`` is from 0 to 1."""

    success: bool = True
    query: str
    mode: SearchMode
    results: list[Citation]


class DatasourcePage(ListPage):
    datasources: list[DatasourceSnapshot]


class KnowledgeBaseCreated(Event, type="aes.ingestion.knowledge_base.created.v1"):
    """A knowledge base was created."""

    knowledge_base: KnowledgeBase


class KnowledgeBaseUpdated(Event, type="aes.ingestion.knowledge_base.updated.v1"):
    """A knowledge base was updated."""

    knowledge_base: KnowledgeBase


class KnowledgeBaseDeleted(Event, type="aes.ingestion.knowledge_base.deleted.v1"):
    """A knowledge base was deleted with its indexes. Its collections and files remain."""

    knowledge_base_id: str


class RunEvent(Event):
    """An event about an ingestion. The event's subject is the knowledge base."""

    knowledge_base_id: str
    ingestion_id: str


class IngestionQueued(RunEvent, type="aes.ingestion.knowledge_base.ingestion.queued.v1"):
    """An ingestion was queued. ``total_datasources`` may grow while the files are being listed."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "one file": {"ingestion_id": "01980f4f-8b64-749c-b5b6-a3b4c5d6e7fc", "total_datasources": 1}
    }

    total_datasources: int
    knowledge_base: KnowledgeBase | None = None


class IngestionProgress(RunEvent, type="aes.ingestion.knowledge_base.ingestion.progress.v1"):
    """An ingestion progressed. This event is published at most once per second.

    ``metadata`` contains ``phase``, ``total_chunks``, ``processed_chunks`` and ``message``.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "embedding": {
            "ingestion_id": "01980f4f-8b64-749c-b5b6-a3b4c5d6e7fc",
            "progress": 40,
            "finished_datasources": 4,
            "total_datasources": 10,
            "metadata": {
                "phase": "embedding",
                "total_chunks": 180,
                "processed_chunks": 72,
                "message": "4 of 10 files",
            },
        }
    }

    progress: int
    finished_datasources: int
    total_datasources: int
    metadata: dict[str, Any] = {}


class DatasourceFailed(RunEvent, type="aes.ingestion.knowledge_base.datasource.failed.v1"):
    """A file couldn't be ingested. ``error`` explains why."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "password-protected": {
            "ingestion_id": "01980f4f-8b64-749c-b5b6-a3b4c5d6e7fc",
            "file_name": "timetable.pdf",
            "error": {
                "code": "encrypted",
                "message": "The document is password-protected. Upload it without a password.",
                "phase": "parsing",
                "attempt": 1,
                "retryable": False,
            },
        }
    }

    file_id: str
    file_name: str
    error: DatasourceError


class IngestionCompleted(RunEvent, type="aes.ingestion.knowledge_base.ingestion.completed.v1"):
    """An ingestion completed. All files of the knowledge base are searchable."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "ten files": {
            "ingestion_id": "01980f4f-8b64-749c-b5b6-a3b4c5d6e7fc",
            "datasource_count": 10,
            "chunk_count": 180,
        }
    }

    datasource_count: int
    chunk_count: int


class IngestionFailed(RunEvent, type="aes.ingestion.knowledge_base.ingestion.failed.v1"):
    """An ingestion ended with at least one failed file. The other files are searchable.

    A ``conflict_error`` means that the ingestion was abandoned, because an ingestion with different settings replaced
    it or the knowledge base was deleted.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "one of ten files": {
            "ingestion_id": "01980f4f-8b64-749c-b5b6-a3b4c5d6e7fc",
            "datasource_count": 9,
            "failed_count": 1,
            "error": {"type": "validation_error", "message": "1 of 10 files couldn't be ingested."},
        }
    }

    datasource_count: int
    failed_count: int
    error: ErrorInfo


class CreateKnowledgeBase(BodyCommand, type="aes.ingestion.create_knowledge_base.v1", outcomes=(KnowledgeBaseCreated,)):
    """Create a knowledge base."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        name: {"settings": body} for name, body in CreateKnowledgeBaseBody.EXAMPLES.items()
    }

    knowledge_base_id: str
    settings: CreateKnowledgeBaseBody


class UpdateKnowledgeBase(
    BodyCommand,
    type="aes.ingestion.update_knowledge_base.v1",
    outcomes=(KnowledgeBaseUpdated,),
    subject="knowledge_base_id",
):
    """Update a knowledge base. Omitted fields of ``changes`` keep their values.

    ``add_file_ids`` and ``remove_file_ids`` modify the current list of files. ``ingest`` starts an ingestion.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        name: {"changes": body} for name, body in UpdateKnowledgeBaseBody.EXAMPLES.items()
    }

    knowledge_base_id: str
    changes: UpdateKnowledgeBaseBody
    add_file_ids: list[str] = []
    remove_file_ids: list[str] = []
    ingest: bool = False


class DeleteKnowledgeBase(
    Command,
    type="aes.ingestion.delete_knowledge_base.v1",
    outcomes=(KnowledgeBaseDeleted,),
    subject="knowledge_base_id",
):
    """Delete a knowledge base with its indexes. Its collections and files remain."""

    knowledge_base_id: str


class IngestKnowledgeBase(
    Command, type="aes.ingestion.ingest_knowledge_base.v1", outcomes=(IngestionQueued,), subject="knowledge_base_id"
):
    """Index new, changed and failed files, and drop files that were removed from the knowledge base."""

    knowledge_base_id: str
