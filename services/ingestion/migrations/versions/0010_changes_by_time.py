"""Indexes for reads of the last changes and of deleted files, which had to scan whole tables."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    build_index(op, "ix_ingestion_items_changed_at", "ingestion_items (changed_at)")
    build_index(op, "ix_ingestion_runs_changed_at", "ingestion_runs (changed_at)")
    build_index(op, "ix_files_deleted_at", "files (deleted_at, id) WHERE deleted_at IS NOT NULL")
