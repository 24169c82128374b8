"""The tables whose rows expire."""

from typing import Final

from libs.eventing import Expiry

_UPLOAD_KEY_DAYS: Final = 3
EXPIRIES: Final = (
    Expiry(
        "files",
        since="deleted_at",
        id="id",
        unneeded="NOT EXISTS (SELECT FROM ingestion_items d WHERE d.file_id = t.id)"
        " AND NOT EXISTS (SELECT FROM collection_files c WHERE c.file_id = t.id)",
    ),
    Expiry(
        "artifact_documents", since="changed_at", id="artifact_id", condition="state = 'deleted' AND index_id IS NULL"
    ),
    Expiry(
        "ingestion_runs",
        since="changed_at",
        id="id",
        unneeded="state IN ('completed', 'failed', 'superseded')"
        " AND NOT EXISTS (SELECT FROM ingestion_items d WHERE d.run_id = t.id)"
        " AND NOT EXISTS (SELECT FROM knowledge_bases k"
        " WHERE k.id = t.knowledge_base_id AND k.run_id = t.id AND k.deleted_at IS NULL)",
    ),
    Expiry(
        "knowledge_bases",
        since="deleted_at",
        id="id",
        unneeded="NOT EXISTS (SELECT FROM ingestion_runs r WHERE r.knowledge_base_id = t.id)"
        " AND NOT EXISTS (SELECT FROM knowledge_base_indexes i WHERE i.knowledge_base_id = t.id)",
    ),
    Expiry("uploads", since="created_at", days=_UPLOAD_KEY_DAYS),
)
