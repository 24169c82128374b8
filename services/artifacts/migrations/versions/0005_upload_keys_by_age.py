"""Idempotency keys of uploads are found by their age."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    build_index(op, "ix_upload_keys_created_at", "upload_keys (created_at)")
