"""How knowledge bases, their indexes and ingestions lie in their tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from libs.contracts.api.knowledge import ChunkingStrategy, DatasourceError
from libs.persistence import Connection
from services.ingestion.domain.knowledge_bases import (
    IndexSettings,
    KnowledgeBaseView,
    Source,
    StoredKnowledgeBase,
)

LIVE: Final = """
    SELECT id, company_id, name, description, collection_ids, file_ids, settings, llm_config, status, status_version,
           index_id, run_id, created_by, created_by_name, company_name, created_at, updated_at
    FROM knowledge_bases WHERE deleting_at IS NULL
"""
# What an ingestion fills: the index being built while there is one, else the one that is searched.
TARGET_INDEX: Final = """
    (SELECT i.id FROM knowledge_base_indexes i WHERE i.knowledge_base_id = k.id AND i.state IN ('building', 'live')
     ORDER BY i.state LIMIT 1)
"""
# Files of the knowledge base, and those that are in its index still. OFFSET keeps PostgreSQL, which knows little of
# young tables, from comparing all with all.
SOURCES: Final = f"""
    WITH target AS MATERIALIZED (
        SELECT k.id, k.company_id, k.collection_ids, k.file_ids, {TARGET_INDEX} AS index_id
        FROM knowledge_bases k WHERE k.id = %(id)s
    ), wanted AS (
        SELECT unnest(file_ids) AS id FROM target
        UNION SELECT cf.file_id FROM target, collection_files cf WHERE cf.collection_id = ANY (target.collection_ids)
        UNION SELECT d.file_id FROM target, ingestion_items d WHERE d.index_id = target.index_id
    )
    SELECT f.id, f.name, f.status, coalesce(d.state, 'pending') AS state, coalesce(d.phase, '') AS phase,
           coalesce(d.chunks, 0) AS chunks, d.error
    FROM target CROSS JOIN wanted CROSS JOIN LATERAL (
        SELECT id, name, status, deleted_at, company_id FROM files WHERE id = wanted.id OFFSET 0) f
    LEFT JOIN LATERAL (
        SELECT state, phase, chunks, error FROM ingestion_items
        WHERE index_id = target.index_id AND file_id = f.id OFFSET 0) d ON true
    WHERE f.deleted_at IS NULL AND f.company_id = target.company_id AND d.state IS DISTINCT FROM 'removing'
    ORDER BY f.id
"""


def settings_of(stored: Mapping[str, Any]) -> IndexSettings:
    return IndexSettings(
        stored["engine"],
        ChunkingStrategy.model_validate(stored["chunking"]),
        stored["provider"],
        stored["model"],
        stored["dimensions"],
    )


def settings_json(settings: IndexSettings) -> dict[str, Any]:
    return {"engine": settings.engine, "chunking": settings.chunking.model_dump(), **settings.embedding()}


def knowledge_base_of(row: Mapping[str, Any]) -> StoredKnowledgeBase:
    fields = dict(row)
    for name in ("collection_ids", "file_ids"):
        fields[name] = tuple(fields[name])
    return StoredKnowledgeBase(**{**fields, "settings": settings_of(fields["settings"])})


def source_of(row: tuple[Any, ...]) -> Source:
    file_id, name, status, state, phase, chunks, error = row
    return Source(file_id, name, status, state, phase, chunks, DatasourceError(**error) if error else None)


async def view_of(connection: Connection, stored: StoredKnowledgeBase) -> KnowledgeBaseView:
    """The knowledge base with its files; callers see to it that both are of one moment."""
    found = await connection.execute(SOURCES, {"id": stored.id})
    sources = tuple(source_of(row) for row in await found.fetchall())
    run = await connection.execute("SELECT state FROM ingestion_runs WHERE id = %s", (stored.run_id,))
    row = await run.fetchone()
    return KnowledgeBaseView(stored, sources, row[0] if row else None)
