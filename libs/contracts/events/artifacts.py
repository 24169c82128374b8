"""Events of the artifacts service."""

from typing import Any

from libs.contracts.api.artifacts import ArtifactRecord
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event


class ArtifactUploaded(Event, type="aes.artifacts.artifact.uploaded.v1"):
    """An artifact is stored. ``artifact.origin`` tells whether a user uploaded it or an agent made it."""

    artifact: ArtifactRecord


class ArtifactEvent(Event):
    artifact_id: str
    session_id: str


class ArtifactProgress(ArtifactEvent, type="aes.artifacts.artifact.progress.v1"):
    """The progress of processing an artifact, in percent."""

    progress: int


class ArtifactReady(ArtifactEvent, type="aes.artifacts.artifact.ready.v1"):
    """Processing has succeeded. ``metadata`` has its results, such as numbers of sheets, rows or passages."""

    metadata: dict[str, Any] = {}


class ArtifactFailed(ArtifactEvent, type="aes.artifacts.artifact.failed.v1"):
    """Processing has failed. The artifact's bytes can still be downloaded."""

    error: ErrorInfo


class ArtifactCopied(ArtifactEvent, type="aes.artifacts.artifact.copied.v1"):
    """The artifact was copied to a file of the company, which outlives the session."""

    file_id: str


class ArtifactRemoved(ArtifactEvent, type="aes.artifacts.artifact.removed.v1"):
    """The artifact's copy among the company's files is deleted. The artifact itself stays."""

    file_id: str


class ArtifactDeleted(ArtifactEvent, type="aes.artifacts.artifact.deleted.v1"):
    """The artifact was deleted with its session. A copy among the company's files stays."""
