"""Tombstones of knowledge bases and documents are found by their age, and runs by their knowledge base."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    build_index(op, "ix_knowledge_bases_deleted_at", "knowledge_bases (deleted_at) WHERE deleted_at IS NOT NULL")
    build_index(op, "ix_ingestion_runs_knowledge_base_id", "ingestion_runs (knowledge_base_id)")
    build_index(
        op,
        "ix_artifact_documents_gone",
        "artifact_documents (changed_at) WHERE state = 'deleted' AND index_id IS NULL",
    )
