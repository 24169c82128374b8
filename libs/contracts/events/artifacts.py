"""What happens to session artifacts."""

from libs.contracts.api.artifacts import Artifact
from libs.contracts.errors import ErrorInfo
from libs.contracts.messages import Event
from libs.contracts.topics import ARTIFACTS_EVENTS


class ArtifactEvent(Event):
    TOPIC = ARTIFACTS_EVENTS


class ArtifactUploaded(ArtifactEvent):
    """Uploaded by a user or made by an agent (``artifact.origin``); links are left out of events."""

    TYPE = "aes.artifacts.artifact.uploaded.v1"

    artifact: Artifact


class ArtifactReady(ArtifactEvent):
    """Its content can be used."""

    TYPE = "aes.artifacts.artifact.ready.v1"

    artifact_id: str
    session_id: str


class ArtifactFailed(ArtifactEvent):
    TYPE = "aes.artifacts.artifact.failed.v1"

    artifact_id: str
    session_id: str
    error: ErrorInfo


class ArtifactProgress(ArtifactEvent):
    """``progress`` in percent."""

    TYPE = "aes.artifacts.artifact.progress.v1"

    artifact_id: str
    session_id: str
    progress: int


class ArtifactCopied(ArtifactEvent):
    TYPE = "aes.artifacts.artifact.copied.v1"

    artifact_id: str
    session_id: str
    file_id: str


class ArtifactRemoved(ArtifactEvent):
    """The copy in the platform's files is gone; the artifact itself stays."""

    TYPE = "aes.artifacts.artifact.removed.v1"

    artifact_id: str
    session_id: str
    file_id: str
