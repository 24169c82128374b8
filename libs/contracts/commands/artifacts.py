"""What the artifacts service is asked to do."""

from libs.contracts.events.artifacts import ArtifactCopied, ArtifactRemoved
from libs.contracts.messages import Command
from libs.contracts.topics import ARTIFACTS_COMMANDS


class ArtifactCommand(Command):
    TOPIC = ARTIFACTS_COMMANDS


class CopyArtifactToPlatform(ArtifactCommand):
    """Keep an agent's artifact as a file of the company, beyond its session."""

    TYPE = "aes.artifacts.copy_to_platform.v1"
    OUTCOMES = (ArtifactCopied,)

    session_id: str
    artifact_id: str


class RemoveArtifactFromPlatform(ArtifactCommand):
    """Undo ``CopyArtifactToPlatform``."""

    TYPE = "aes.artifacts.remove_from_platform.v1"
    OUTCOMES = (ArtifactRemoved,)

    session_id: str
    artifact_id: str
