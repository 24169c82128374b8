"""Events of the artifacts service."""

from typing import Any

from libs.contracts.api.artifacts import ArtifactRecord
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event


class ArtifactUploaded(Event, type="aes.artifacts.artifact.uploaded.v1"):
    """Uploaded by a user, or made by an agent (``artifact.origin``)."""

    artifact: ArtifactRecord


class ArtifactEvent(Event):
    artifact_id: str
    session_id: str


class ArtifactProgress(ArtifactEvent, type="aes.artifacts.artifact.progress.v1"):
    """``progress`` of processing in percent."""

    progress: int


class ArtifactReady(ArtifactEvent, type="aes.artifacts.artifact.ready.v1"):
    """Processing is done; ``metadata`` is what it found out."""

    metadata: dict[str, Any] = {}


class ArtifactFailed(ArtifactEvent, type="aes.artifacts.artifact.failed.v1"):
    """It could not be processed; its bytes can be downloaded all the same."""

    error: ErrorInfo


class ArtifactCopied(ArtifactEvent, type="aes.artifacts.artifact.copied.v1"):
    """A file of the company holds its bytes from now on, beyond its session."""

    file_id: str


class ArtifactRemoved(ArtifactEvent, type="aes.artifacts.artifact.removed.v1"):
    """The copy among the company's files is gone; the artifact itself stays."""

    file_id: str


class ArtifactDeleted(ArtifactEvent, type="aes.artifacts.artifact.deleted.v1"):
    """Its session has ended: the artifact is gone. A copy among the company's files stays."""
