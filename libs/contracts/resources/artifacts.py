"""Artifacts: files in a session."""

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
"""The error detail's type if an artifact's content is lost."""


class ArtifactRecord(BaseModel):
    """A file in a session, without download links. ``size`` is in bytes.

    ``metadata`` contains the results of processing: an image's ``width`` and ``height``, a document's ``characters``
    and ``passages``, or the ``sheets`` and ``rows`` of tables. ``platform_file_id`` is the ID of the artifact's copy
    among the company's files.
    """

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "created by an agent": {
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
    """A file in a session. ``url`` is a signed download link, valid until ``url_expires_at``."""

    url: str
    url_expires_at: Timestamp


class ArtifactPage(ListPage):
    artifacts: list[Artifact]


class ArtifactState(BaseModel):
    """The processing state of an artifact. ``progress`` is a percentage."""

    artifact_id: str
    processing_status: ProcessingStatus
    progress: int
    error: ErrorInfo | None = None


class ArtifactUrl(BaseModel):
    """A signed link that downloads an artifact until ``expires_at``."""

    url: str
    expires_at: Timestamp


class Sheet(BaseModel):
    """A table in a file: its columns' ``headers`` and ``types``, its first ``rows``, and its total number of rows."""

    name: str
    headers: list[str]
    types: list[str]
    rows: list[list[Any]]
    row_count: int


class ArtifactPreview(BaseModel):
    """A preview of the tables in an artifact."""

    sheets: list[Sheet]


class PlatformCopy(BaseModel):
    """The response to ``copy-to-platform`` and ``remove-from-platform``."""

    success: bool = True
    file_id: str


class ArtifactText(BaseModel):
    """A part of a document's extracted text, from ``offset``. ``characters`` is the length of the whole text."""

    artifact_id: str
    text: str
    offset: int
    characters: int


class ArtifactSearchBody(StrictModel):
    """A search in a session's documents, or only in those listed in ``artifact_ids``."""

    query: Annotated[str, Field(min_length=1, max_length=10_000)]
    artifact_ids: Annotated[list[str], Field(max_length=10_000)] | None = None
    mode: SearchMode = "hybrid"
    top_k: Annotated[int, Field(ge=1, le=100)] = 5


class ArtifactPassage(BaseModel):
    """A passage of a document. ``score`` is from 0 to 1. Compare scores only within one response."""

    artifact_id: str
    name: str = ""
    passage: str
    score: float
    page: int | None = None
    row: int | None = None


class ArtifactPassages(BaseModel):
    """The passages found by a search, best first."""

    results: list[ArtifactPassage]


class ArtifactLinkBody(StrictModel):
    """A download link to an artifact. The link may have expired."""

    url: Annotated[str, Field(min_length=1, max_length=4000)]


class ArtifactUploaded(Event, type="aes.artifacts.artifact.uploaded.v1"):
    """An artifact was stored. ``artifact.origin`` says whether a user uploaded it or an agent created it."""

    artifact: ArtifactRecord


class ArtifactEvent(Event):
    """An event whose subject is an artifact."""

    artifact_id: str
    session_id: str


class ArtifactProgress(ArtifactEvent, type="aes.artifacts.artifact.progress.v1"):
    """Processing of an artifact progressed. ``progress`` is a percentage."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a document": {"progress": 40}}

    progress: int


class ArtifactReady(ArtifactEvent, type="aes.artifacts.artifact.ready.v1"):
    """An artifact was processed. ``metadata`` contains the results, such as the number of sheets, rows or passages."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a table": {"metadata": {"sheets": 1, "rows": 42}}}

    metadata: dict[str, Any] = {}


class ArtifactFailed(ArtifactEvent, type="aes.artifacts.artifact.failed.v1"):
    """Processing of an artifact failed. You can still download the artifact."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "password-protected": {
            "error": {
                "type": "validation_error",
                "message": "The file is password-protected. Upload a copy without a password.",
            }
        }
    }

    error: ErrorInfo


class ArtifactCopied(ArtifactEvent, type="aes.artifacts.artifact.copied.v1"):
    """An artifact was copied to the company's files. The copy outlives the session."""

    file_id: str


class ArtifactRemoved(ArtifactEvent, type="aes.artifacts.artifact.removed.v1"):
    """An artifact's copy among the company's files was deleted. The artifact itself remains."""

    file_id: str


class ArtifactDeleted(ArtifactEvent, type="aes.artifacts.artifact.deleted.v1"):
    """An artifact was deleted with its session. Its copy among the company's files, if any, remains."""


class ArtifactIndexEvent(Event):
    """An event about the indexing of an artifact, which is the event's subject."""

    artifact_id: str
    session_id: str


class ArtifactIndexing(ArtifactIndexEvent, type="aes.ingestion.artifact.indexing.v1"):
    """Indexing of an artifact progressed. ``progress`` is a percentage."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"half-way": {"progress": 40}}

    progress: int


class ArtifactIndexed(ArtifactIndexEvent, type="aes.ingestion.artifact.indexed.v1"):
    """An artifact's text was extracted, and its passages are searchable."""

    EXAMPLES: ClassVar[dict[str, Any]] = {"a document": {"characters": 18211, "passages": 23}}

    characters: int
    passages: int


class ArtifactIndexingFailed(ArtifactIndexEvent, type="aes.ingestion.artifact.indexing_failed.v1"):
    """Indexing of an artifact failed."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "password-protected": {
            "error": {
                "type": "validation_error",
                "message": "The file is password-protected. Upload a copy without a password.",
            }
        }
    }

    error: ErrorInfo


class CopyArtifactToPlatform(
    Command, type="aes.artifacts.copy_to_platform.v1", outcomes=(ArtifactCopied,), subject="artifact_id"
):
    """Copy an artifact that an agent created to the company's files."""

    session_id: str
    artifact_id: str


class RemoveArtifactFromPlatform(
    Command, type="aes.artifacts.remove_from_platform.v1", outcomes=(ArtifactRemoved,), subject="artifact_id"
):
    """Delete an artifact's copy among the company's files."""

    session_id: str
    artifact_id: str
