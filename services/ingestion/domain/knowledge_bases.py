"""Knowledge bases, with their settings, files and progress."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final, Literal, Self

import orjson

from libs.contracts.errors import NotFound
from libs.contracts.resources.files import FileStatus
from libs.contracts.resources.knowledge_bases import (
    ChunkingStrategy,
    Datasource,
    DatasourceError,
    DatasourceSnapshot,
    KnowledgeBase,
    KnowledgeBaseStatus,
)
from libs.contracts.timestamps import format_time

ItemState = Literal["pending", "running", "ingested", "failed", "removing"]
RunState = Literal["planning", "running", "finishing", "completed", "failed", "superseded"]
ANALYSIS: Final = 2
"""The version of the text analysis for keyword search (``engines/analysis.py``)."""
_INGESTION_STATUS: Mapping[str, str] = {"ingested": "completed", "running": "running", "failed": "failed"}


class KnowledgeBaseNotFound(NotFound):
    """The knowledge base doesn't exist or belongs to another company."""

    def __init__(self) -> None:
        super().__init__("There is no knowledge base with this ID.")


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The settings of an index. Different settings or another analysis version require a new index."""

    engine: str
    chunking: ChunkingStrategy
    provider: str
    model: str
    dimensions: int

    def hash(self) -> str:
        """Returns the same hash for equal settings."""
        parts = [ANALYSIS, self.engine, self.chunking.model_dump(), self.provider, self.model, self.dimensions]
        return sha256(orjson.dumps(parts, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def embedding(self) -> dict[str, Any]:
        return {"provider": self.provider, "model": self.model, "dimensions": self.dimensions}


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredKnowledgeBase:
    """A knowledge base. ``settings`` apply to the next ingestion.

    ``index_id`` is the index that is searched, or None before the first ingestion.
    """

    id: str
    company_id: str
    name: str
    description: str
    collection_ids: tuple[str, ...]
    file_ids: tuple[str, ...]
    settings: IndexSettings
    llm_config: Mapping[str, Any]
    status: KnowledgeBaseStatus = "pending"
    status_version: int = 0
    index_id: str | None = None
    run_id: str | None = None
    created_by: str
    created_by_name: str
    company_name: str
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class LiveIndex:
    """The index that is searched. ``index_id`` is None before the first ingestion.

    ``given_up`` is set if the engine has lost the index and a new index is being built.
    """

    knowledge_base_id: str
    name: str
    index_id: str | None
    settings: IndexSettings
    given_up: bool = False


@dataclass(frozen=True, slots=True)
class Source:
    """A file in a knowledge base and its progress. ``chunks`` is 0 until the file has been cut."""

    file_id: str
    name: str
    file_status: FileStatus
    state: ItemState = "pending"
    phase: str = ""
    chunks: int = 0
    error: DatasourceError | None = None

    def public(self) -> Datasource:
        return Datasource(id=self.file_id, name=self.name, status=self.file_status)

    def snapshot(self) -> DatasourceSnapshot:
        status = _INGESTION_STATUS.get(self.state, "pending")
        return DatasourceSnapshot(id=self.file_id, name=self.name, ingestion_status=status)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of an ingestion. ``phases`` counts the running items in each phase."""

    total: int = 0
    ingested: int = 0
    failed: int = 0
    total_chunks: int = 0
    processed_chunks: int = 0
    phases: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, sources: Sequence[Source]) -> Self:
        states = Counter(source.state for source in sources)
        return cls(
            len(sources),
            states["ingested"],
            states["failed"],
            sum(source.chunks for source in sources),
            sum(source.chunks for source in sources if source.state == "ingested"),
            Counter(source.phase for source in sources if source.state == "running"),
        )

    @property
    def finished(self) -> int:
        return self.ingested + self.failed

    def percent(self, *, ended: bool) -> int:
        """Returns the progress in percent, which is only 100 once the ingestion has ended."""
        if ended:
            return 100
        return min(99, 100 * self.finished // self.total) if self.total else 0

    def metadata(self, run_state: RunState | None) -> dict[str, Any]:
        """Returns the public details of a running or failed ingestion."""
        return {
            "phase": self._phase(run_state),
            "total_chunks": self.total_chunks,
            "processed_chunks": self.processed_chunks,
            "message": self._message(run_state),
        }

    def _phase(self, run_state: RunState | None) -> str:
        if run_state == "finishing":
            return "indexing"
        if run_state not in ("planning", "running"):
            return ""
        if not self.phases:
            return "queued" if self.finished == 0 else "indexing"
        return max(self.phases, key=lambda phase: self.phases[phase]) or "parsing"

    def _message(self, run_state: RunState | None) -> str:
        if run_state == "planning":
            return "Listing files."
        if run_state == "finishing":
            return "Completing the index."
        text = f"{self.finished} of {self.total} files done"
        return f"{text}, {self.failed} failed." if self.failed else f"{text}."


@dataclass(frozen=True, slots=True)
class KnowledgeBaseView:
    """A consistent snapshot of a knowledge base, its files and its last run."""

    stored: StoredKnowledgeBase
    sources: tuple[Source, ...] = ()
    run_state: RunState | None = None
    run_failure: str | None = None
    """The reason why the run didn't finish, if it didn't."""

    def public(self) -> KnowledgeBase:
        stored, progress = self.stored, Progress.of(self.sources)
        ingested = [source.public() for source in self.sources if source.state == "ingested"]
        failed = [source.public() for source in self.sources if source.state == "failed"]
        return KnowledgeBase(
            id=stored.id,
            name=stored.name,
            description=stored.description,
            processing_engine=stored.settings.engine,
            dataset_name=stored.name,
            normalized_dataset_name=normalized(stored.name),
            status=stored.status,
            progress=progress.percent(ended=stored.status in ("completed", "failed")),
            collection_ids=list(stored.collection_ids),
            file_ids=list(stored.file_ids),
            datasources=[source.public() for source in self.sources],
            datasource_count=progress.ingested,
            total_datasources=progress.total,
            ingested_datasources=ingested,
            failed_datasources=failed,
            datasource_errors={s.file_id: s.error for s in self.sources if s.state == "failed" and s.error},
            datasource_snapshots={source.file_id: source.snapshot() for source in self.sources},
            success_rate=_rate(progress, stored.status),
            chunking_strategy=stored.settings.chunking.model_dump(),
            embedding_config=stored.settings.embedding(),
            llm_config=dict(stored.llm_config),
            processing_metadata=self._metadata(progress),
            created_by_name=stored.created_by_name,
            company_name=stored.company_name,
            created_at=format_time(stored.created_at),
            updated_at=format_time(stored.updated_at),
        )

    def _metadata(self, progress: Progress) -> dict[str, Any]:
        if self.stored.status == "completed":
            return {}
        metadata = progress.metadata(self.run_state)
        return {**metadata, "message": self.run_failure} if self.run_failure else metadata


def _rate(progress: Progress, status: KnowledgeBaseStatus) -> float:
    if not progress.finished:
        return 100.0 if status == "completed" else 0.0
    return round(100 * progress.ingested / progress.finished, 2)


def normalized(name: str) -> str:
    """Converts a name to lowercase ASCII letters and digits, separated by underscores. The result may be empty."""
    plain = unicodedata.normalize("NFKD", name.casefold()).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "_", plain).strip("_")
