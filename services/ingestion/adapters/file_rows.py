"""How files lie in their tables."""

from collections.abc import Iterable
from typing import Any, Final

from services.ingestion.domain.files import StoredFile

LIVE_FILES: Final = """
    SELECT f.id, f.company_id, f.blob_id, f.name, f.content_type, f.size, f.sha256, f.status, f.tags,
           f.created_at, f.updated_at,
           ARRAY(SELECT cf.collection_id FROM collection_files cf WHERE cf.file_id = f.id
                 ORDER BY cf.added_at, cf.collection_id) AS collection_ids
    FROM files f
    WHERE f.deleted_at IS NULL AND f.company_id = %(company)s
"""


def file_of(row: dict[str, Any]) -> StoredFile:
    return StoredFile(**{**row, "tags": tuple(row["tags"]), "collection_ids": tuple(row["collection_ids"])})


def storable(ids: Iterable[str]) -> list[str]:
    """Without those that PostgreSQL refuses and that nothing stored can have, each once, in order."""
    return [each for each in dict.fromkeys(ids) if "\x00" not in each]
