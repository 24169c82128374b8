"""Citations of the passages that support a reply."""

from typing import Any, ClassVar

from libs.contracts.models import WireModel


class Citation(WireModel):
    """A passage that supports the reply."""

    EXAMPLES: ClassVar[dict[str, Any]] = {
        "passage from a file": {
            "knowledge_base_id": "01980f4f-5e31-7169-8283-708192a3b4c9",
            "knowledge_base_name": "Passenger handbook",
            "file_id": "01980f4f-6f42-727a-9394-8192a3b4c5da",
            "file_name": "passenger-handbook.md",
            "page": 2,
            "passage": "An adult pays 84 crowns one way.",
            "score": 0.81,
        }
    }

    knowledge_base_id: str | None = None
    knowledge_base_name: str | None = None
    file_id: str | None = None
    file_name: str | None = None
    artifact_id: str | None = None
    page: int | None = None
    row: int | None = None
    passage: str
    score: float | None = None
