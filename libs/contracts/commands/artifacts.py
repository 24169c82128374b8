"""Commands to the artifacts service."""

from libs.contracts.events.artifacts import ArtifactCopied, ArtifactRemoved
from libs.contracts.messages import Command


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
