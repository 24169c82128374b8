"""Session artifacts as they stand on the wire."""

from typing import Any, Literal

from pydantic import BaseModel

from libs.contracts.errors import ErrorInfo
from libs.contracts.timestamps import Timestamp

ProcessingStrategy = Literal["vision", "rag_indexing", "structural_parsing"]
ProcessingStatus = Literal["pending", "ready", "failed"]
Origin = Literal["uploaded", "generated"]


class Artifact(BaseModel):
    """A file of one session. ``size`` in bytes; ``url`` is a presigned download link until ``url_expires_at``."""

    artifact_id: str
    session_id: str
    name: str
    content_type: str
    size: int
    sha256: str
    origin: Origin
    processing_strategy: ProcessingStrategy
    processing_status: ProcessingStatus
    error: ErrorInfo | None = None
    url: str
    url_expires_at: Timestamp
    platform_file_id: str | None = None
    created_at: Timestamp
    updated_at: Timestamp


class ArtifactPage(BaseModel):
    artifacts: list[Artifact]
    total: int
    has_more: bool


class ArtifactState(BaseModel):
    """``progress`` in percent."""

    artifact_id: str
    processing_status: ProcessingStatus
    progress: int
    error: ErrorInfo | None = None


class ArtifactUrl(BaseModel):
    url: str
    expires_at: Timestamp


class Sheet(BaseModel):
    """One table: column ``headers`` and ``types``, the first ``rows``, and how many there are."""

    name: str
    headers: list[str]
    types: list[str]
    rows: list[list[Any]]
    row_count: int


class ArtifactPreview(BaseModel):
    sheets: list[Sheet]


class PlatformCopy(BaseModel):
    """The reply to ``copy-to-platform`` and ``remove-from-platform``."""

    success: bool
    file_id: str
