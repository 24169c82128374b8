"""Artifacts: files of one session."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, Field

from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Command, Event
from libs.contracts.models import SearchMode, StrictModel
from libs.contracts.pages import ListPage
from libs.contracts.timestamps import Timestamp

ProcessingStrategy = Literal["vision", "rag_indexing", "structural_parsing"]
ProcessingStatus = Literal["pending", "ready", "failed"]
ArtifactOrigin = Literal["uploaded", "generated"]
BYTES_MISSING: Final = "bytes_missing"
"""Type of the error detail of an artifact whose bytes are lost (as opposed to a store that does not answer)."""


class ArtifactRecord(BaseModel):
    """A file of one session, without links to it. ``size`` in bytes.

    ``metadata`` is what processing found out: ``width`` and ``height`` of an image, ``characters`` and ``passages``
    of a document, ``sheets`` and ``rows`` of tables. ``platform_file_id``: the file that it was copied to.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "of an agent": {
            "artifact_id": "01980f52-1a2b-7c3d-8e4f-5a6b7c8d9e0f",
            "session_id": "01980f52-0a31-7c25-9d3e-2b3c4d5e6f05",
            "name": "timetable.csv",
            "content_type": "text/csv",
            "size": 2183,
            "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "origin": "generated",
            "processing_strategy": "structural_parsing",
            "processing_status": "pending",
            "created_at": "2026-05-04T08:15:02.114870Z",
            "updated_at": "2026-05-04T08:15:02.114870Z",
        }
    }

    artifact_id: str
    session_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    origin: ArtifactOrigin
    processing_strategy: ProcessingStrategy
    processing_status: ProcessingStatus
    error: ErrorInfo | None = None
    metadata: dict[str, Any] = {}
    platform_file_id: str | None = None
    created_at: Timestamp
    updated_at: Timestamp


class Artifact(ArtifactRecord):
    """A file of one session. ``url`` is a signed download link that works until ``url_expires_at``."""

    url: str
    url_expires_at: Timestamp


class ArtifactPage(ListPage):
    artifacts: list[Artifact]


class ArtifactState(BaseModel):
    """``progress`` in percent."""

    artifact_id: str
    processing_status: ProcessingStatus
    progress: int
    error: ErrorInfo | None = None


class ArtifactUrl(BaseModel):
    """A signed link, good until ``expires_at``."""

    url: str
    expires_at: Timestamp


class Sheet(BaseModel):
    """One table: ``headers`` and ``types`` of its columns, its first ``rows``, and how many rows there are."""

    name: str
    headers: list[str]
    types: list[str]
    rows: list[list[Any]]
    row_count: int


class ArtifactPreview(BaseModel):
    sheets: list[Sheet]


class PlatformCopy(BaseModel):
    """The reply to ``copy-to-platform`` and ``remove-from-platform``."""

    success: bool = True
    file_id: str


class ArtifactText(BaseModel):
    """A part of a document's extracted text: it begins at ``offset`` of ``characters``."""

    artifact_id: str
    text: str
    offset: int
    characters: int


class ArtifactSearchBody(StrictModel):
    """A search in the documents of a session; in all of them without ``artifact_ids``."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    artifact_ids: Annotated[list[str], Field(max_length=10_000)] | None = None
    mode: SearchMode = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=100)] = 5


class ArtifactPassage(BaseModel):
    """A passage of a document. ``score`` is 0 to 1, comparable within one answer only."""

    artifact_id: str
    name: str = ""
    passage: str
    score: float
    page: int | None = None
    row: int | None = None


class ArtifactPassages(BaseModel):
    results: list[ArtifactPassage]


class ArtifactLinkBody(StrictModel):
    """A link to an artifact as it was handed out, expired or not."""

    url: Annotated[str, Field(min_length=1, max_length=4000)]


class ArtifactUploaded(Event, type="aes.artifacts.artifact.uploaded.v1"):
    """An artifact is stored. ``artifact.origin`` tells whether a user uploaded it or an agent made it."""

    artifact: ArtifactRecord


class ArtifactEvent(Event):
    artifact_id: str
    session_id: str


class ArtifactProgress(ArtifactEvent, type="aes.artifacts.artifact.progress.v1"):
    """The progress of processing an artifact, in percent."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"of a document": {"progress": 40}}

    progress: int


class ArtifactReady(ArtifactEvent, type="aes.artifacts.artifact.ready.v1"):
    """Processing has succeeded. ``metadata`` has its results, such as numbers of sheets, rows or passages."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a table": {"metadata": {"sheets": 1, "rows": 42}}}

    metadata: dict[str, Any] = {}


class ArtifactFailed(ArtifactEvent, type="aes.artifacts.artifact.failed.v1"):
    """Processing has failed. The artifact's bytes can still be downloaded."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a password": {"error": {"type": "validation_error", "message": "The file is protected by a password."}}
    }

    error: ErrorInfo


class ArtifactCopied(ArtifactEvent, type="aes.artifacts.artifact.copied.v1"):
    """The artifact was copied to a file of the company, which outlives the session."""

    file_id: str


class ArtifactRemoved(ArtifactEvent, type="aes.artifacts.artifact.removed.v1"):
    """The artifact's copy among the company's files is deleted. The artifact itself stays."""

    file_id: str


class ArtifactDeleted(ArtifactEvent, type="aes.artifacts.artifact.deleted.v1"):
    """The artifact was deleted with its session. A copy among the company's files stays."""


class ArtifactIndexEvent(Event):
    """An event about a session's artifact. Its subject is the artifact."""

    artifact_id: str
    session_id: str


class ArtifactIndexing(ArtifactIndexEvent, type="aes.ingestion.artifact.indexing.v1"):
    """The progress of indexing an artifact, in percent."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"half-way": {"progress": 40}}

    progress: int


class ArtifactIndexed(ArtifactIndexEvent, type="aes.ingestion.artifact.indexed.v1"):
    """The artifact's text is extracted and its passages can be searched."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a document": {"characters": 18211, "passages": 23}}

    characters: int
    passages: int


class ArtifactIndexingFailed(ArtifactIndexEvent, type="aes.ingestion.artifact.indexing_failed.v1"):
    EXAMPLES: ClassVar[dict[str, Any]] = {
        "with a password": {"error": {"type": "validation_error", "message": "The file is protected by a password."}}
    }

    error: ErrorInfo


class CopyArtifactToPlatform(
    Command, type="aes.artifacts.copy_to_platform.v1", outcomes=(ArtifactCopied,), subject="artifact_id"
):
    """Keep an agent's artifact as a file of the company, beyond its session."""

    session_id: str
    artifact_id: str


class RemoveArtifactFromPlatform(
    Command, type="aes.artifacts.remove_from_platform.v1", outcomes=(ArtifactRemoved,), subject="artifact_id"
):
    """Undo ``CopyArtifactToPlatform``."""

    session_id: str
    artifact_id: str
