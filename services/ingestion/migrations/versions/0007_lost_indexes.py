"""Documents of sessions whose index was lost are known until they are indexed again."""

from alembic import op

from libs.persistence.index_builds import build_index

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("ALTER TABLE artifact_documents ADD COLUMN IF NOT EXISTS lost_at timestamptz")
    build_index(op, "ix_artifact_documents_indexed", "artifact_documents (index_id) WHERE state = 'indexed'")
