"""Files found by status, newest first, and by tag."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    build_index(op, "ix_files_status", "files (company_id, status, created_at, id) WHERE deleted_at IS NULL")
    build_index(op, "ix_files_tags", "files USING gin (tags) WHERE deleted_at IS NULL AND tags <> '{}'")
