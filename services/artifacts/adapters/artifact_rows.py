"""How artifacts lie in their table."""

from typing import Any, Final

from libs.contracts.errors import ErrorInfo
from services.artifacts.domain.artifacts import StoredArtifact

COLUMNS: Final = """
    a.id, a.session_id, s.company_id, s.owner_id, a.name, a.content_type, a.size, a.sha256, a.origin, a.strategy,
    a.status, a.progress, a.error, a.metadata, a.created_at, a.updated_at,
    CASE WHEN a.platform_state IN ('copied', 'removing') THEN a.platform_file_id END AS platform_file_id
"""
STORED: Final = f"""
    SELECT {COLUMNS} FROM artifacts a JOIN sessions s ON s.id = a.session_id
    WHERE a.state = 'stored' AND s.deleted_at IS NULL
"""


def artifact_of(row: dict[str, Any]) -> StoredArtifact:
    error = row["error"]
    return StoredArtifact(**{**row, "error": None if error is None else ErrorInfo.model_validate(error)})
