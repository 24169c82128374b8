"""What happens to session artifacts."""

from typing import Any

from libs.contracts.api.artifacts import ArtifactRecord
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event
from libs.contracts.topics import ARTIFACTS_EVENTS


class ArtifactsEvent(Event):
    TOPIC = ARTIFACTS_EVENTS


class ArtifactUploaded(ArtifactsEvent):
    """Uploaded by a user, or made by an agent (``artifact.origin``)."""

    TYPE = "aes.artifacts.artifact.uploaded.v1"

    artifact: ArtifactRecord


class ArtifactEvent(ArtifactsEvent):
    artifact_id: str
    session_id: str


class ArtifactProgress(ArtifactEvent):
    """``progress`` of processing in percent."""

    TYPE = "aes.artifacts.artifact.progress.v1"

    progress: int


class ArtifactReady(ArtifactEvent):
    """Processing is done; ``metadata`` is what it found out."""

    TYPE = "aes.artifacts.artifact.ready.v1"

    metadata: dict[str, Any] = {}


class ArtifactFailed(ArtifactEvent):
    """It could not be processed; its bytes can be downloaded all the same."""

    TYPE = "aes.artifacts.artifact.failed.v1"

    error: ErrorInfo


class ArtifactCopied(ArtifactEvent):
    """A file of the company holds its bytes from now on, beyond its session."""

    TYPE = "aes.artifacts.artifact.copied.v1"

    file_id: str


class ArtifactRemoved(ArtifactEvent):
    """The copy among the company's files is gone; the artifact itself stays."""

    TYPE = "aes.artifacts.artifact.removed.v1"

    file_id: str


class ArtifactDeleted(ArtifactEvent):
    """Its session has ended: the artifact is gone. A copy among the company's files stays."""

    TYPE = "aes.artifacts.artifact.deleted.v1"
