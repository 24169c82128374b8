"""Citations: passages that replies rest on."""

from libs.contracts.models import WireModel


class Citation(WireModel):
    """A passage that a reply rests on."""

    knowledge_base_id: str | None = None
    knowledge_base_name: str | None = None
    file_id: str | None = None
    file_name: str | None = None
    artifact_id: str | None = None
    page: int | None = None
    row: int | None = None
    passage: str
    score: float | None = None
