"""Knowledge bases, their ingestion and their search."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, model_validator

from libs.contracts.api.agents import Name, SearchMode, StrictModel
from libs.contracts.api.files import FileStatus, Id
from libs.contracts.api.pages import ListPage
from libs.contracts.api.sessions import Citation
from libs.contracts.timestamps import Timestamp

Engine = Literal["pgvector", "weaviate"]
KnowledgeBaseStatus = Literal["pending", "running", "completed", "failed"]
Phase = Literal["queued", "parsing", "chunking", "embedding", "indexing"]
Strategy = Literal["recursive", "fixed_size", "sentence", "paragraph", "page", "markdown", "row"]
SplitBy = Literal["token", "word", "sentence", "passage", "page", "line", "character"]


class ChunkingStrategy(StrictModel):
    """Splits documents into chunks. ``chunk_size`` and ``chunk_overlap`` count units of ``split_by``.

    An overlap that is not given is an eighth of the size, 64 at most.
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
    """``provider`` is ``wordllama`` (in process) or ``openai`` (any OpenAI-compatible server)."""

    provider: str = Field(default="wordllama", min_length=1, max_length=100)
    model: str = Field(default="", max_length=200)
    dimensions: int | None = Field(default=None, ge=1, le=16_000)


class CreateKnowledgeBaseBody(StrictModel):
    """``ingest: false`` keeps the first ingestion for later. ``processing_engine`` defaults to the installation's."""

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
    """Replaces the given fields; other content or settings take effect with the next ingestion."""

    name: Name | None = None
    description: str | None = Field(default=None, max_length=10_000)
    collection_ids: list[Id] | None = Field(default=None, max_length=1000)
    file_ids: list[Id] | None = Field(default=None, max_length=1000)
    processing_engine: Engine | None = None
    chunking_strategy: ChunkingStrategy | None = None
    embedding_config: EmbeddingConfig | None = None
    llm_config: dict[str, Any] | None = None


class Datasource(BaseModel):
    id: str
    name: str
    type: Literal["file-upload"] = "file-upload"
    status: FileStatus = "active"


class DatasourceSnapshot(BaseModel):
    id: str
    name: str
    type: Literal["file-upload"] = "file-upload"
    ingestion_status: str


class DatasourceError(BaseModel):
    """Why a datasource could not be ingested. ``retryable``: another ingestion may succeed."""

    code: str
    message: str
    phase: str
    attempt: int
    retryable: bool


class KnowledgeBase(BaseModel):
    """Documents made searchable. ``success_rate`` in percent; ``processing_metadata`` is empty when completed."""

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
    """``check_status``: ``status_updated`` tells whether the status changed since this caller last asked."""

    success: bool = True
    message: str
    knowledge_base: KnowledgeBase
    status_updated: bool


class SearchFilters(StrictModel):
    collection_ids: list[Id] = Field(default=[], max_length=100)
    file_ids: list[Id] = Field(default=[], max_length=1000)
    tags: list[str] = Field(default=[], max_length=100)


class SearchBody(StrictModel):
    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    mode: SearchMode = "hybrid"
    top_k: int = Field(default=5, ge=1, le=100)
    min_score: float | None = Field(default=None, ge=0, le=1)
    filters: SearchFilters = SearchFilters()


class SearchReply(BaseModel):
    """Passages, best first; ``score`` 0 to 1."""

    success: bool = True
    query: str
    mode: SearchMode
    results: list[Citation]


class DatasourcePage(ListPage):
    datasources: list[DatasourceSnapshot]
