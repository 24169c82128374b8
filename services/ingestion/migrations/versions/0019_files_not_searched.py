"""Files that searches leave out, which are few, are found without a look at all files of an index."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    build_index(op, "ix_files_not_searched", "files (company_id) WHERE status <> 'active' OR deleted_at IS NOT NULL")
