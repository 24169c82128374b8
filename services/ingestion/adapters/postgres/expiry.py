"""Tables of ingestion whose rows go by themselves. Runs go before their knowledge base, and after their index."""

from typing import Final

from libs.eventing import Expiry

EXPIRIES: Final = (
    Expiry(
        "files",
        id="id",
        since="deleted_at",
        condition="NOT EXISTS (SELECT FROM ingestion_items d WHERE d.file_id = t.id)"
        " AND NOT EXISTS (SELECT FROM collection_files c WHERE c.file_id = t.id)",
    ),
    Expiry(
        "artifact_documents", id="artifact_id", since="changed_at", condition="state = 'deleted' AND index_id IS NULL"
    ),
    Expiry(
        "ingestion_runs",
        id="id",
        since="changed_at",
        condition="state IN ('completed', 'failed', 'superseded')"
        " AND NOT EXISTS (SELECT FROM knowledge_base_indexes i WHERE i.id = t.index_id)"
        " AND NOT EXISTS (SELECT FROM knowledge_bases k"
        " WHERE k.id = t.knowledge_base_id AND k.run_id = t.id AND k.deleted_at IS NULL)",
    ),
    Expiry(
        "knowledge_bases",
        id="id",
        since="deleted_at",
        condition="NOT EXISTS (SELECT FROM ingestion_runs r WHERE r.knowledge_base_id = t.id)"
        " AND NOT EXISTS (SELECT FROM knowledge_base_indexes i WHERE i.knowledge_base_id = t.id)",
    ),
)
