"""Runs that no item needs any more are found, and idempotency keys of uploads by their age."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    build_index(op, "ix_ingestion_items_run_id", "ingestion_items (run_id)")
    build_index(op, "ix_uploads_created_at", "uploads (created_at)")
