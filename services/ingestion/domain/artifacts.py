"""Session documents. The artifacts service owns them, but ingestion stores their texts and chunks."""

from dataclasses import dataclass

from libs.contracts.errors import NotFound, ServiceUnavailable


class ArtifactNotFound(NotFound):
    """The artifact doesn't exist, belongs to another company, or has no text."""

    def __init__(self) -> None:
        super().__init__("There is no artifact with this ID, or it has no text.")


class ArtifactBytesMissing(ServiceUnavailable):
    """The artifacts service knows the artifact but has lost its bytes or is currently deleting them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactJob:
    """A claimed session document. ``token`` is the claim's fencing token. ``attempt`` counts from 1."""

    artifact_id: str
    company_id: str
    session_id: str
    name: str
    content_type: str
    token: str
    attempt: int
    correlation_id: str


@dataclass(frozen=True, slots=True)
class IndexRef:
    """An index and its engine."""

    engine: str
    index_id: str


def artifact_text_key(artifact_id: str) -> str:
    """Returns the key of the artifact's parsed text in the object store."""
    return f"artifacts/{artifact_id}/text"
