"""How collections lie in their tables. What is in them is counted when it is read, so it is never out of date."""

from typing import Any, Final

from services.ingestion.domain.collections import Content, StoredCollection

COLLECTIONS: Final = """
    SELECT c.id, c.company_id, c.name, c.description, c.created_at, c.updated_at,
           n.files, n.total_size, n.parsed, n.failed, n.begun
    FROM collections c
    CROSS JOIN LATERAL (
        SELECT count(*) AS files, coalesce(sum(f.size), 0)::bigint AS total_size,
               count(*) FILTER (WHERE t.state = 'parsed') AS parsed,
               count(*) FILTER (WHERE t.state = 'failed') AS failed,
               coalesce(bool_or(t.state = 'running'
                   OR (t.state IN ('parsed', 'failed') AND t.changed_at >= c.files_changed_at)), false) AS begun
        FROM collection_files cf
        JOIN files f ON f.id = cf.file_id AND f.deleted_at IS NULL
        LEFT JOIN texts t ON t.blob_id = f.blob_id AND t.content_type = f.content_type
        WHERE cf.collection_id = c.id
    ) n
"""
_CONTENT: Final = ("files", "total_size", "parsed", "failed", "begun")


def collection_of(row: dict[str, Any]) -> StoredCollection:
    content = Content(**{name: row[name] for name in _CONTENT})
    return StoredCollection(**{name: value for name, value in row.items() if name not in _CONTENT}, content=content)
