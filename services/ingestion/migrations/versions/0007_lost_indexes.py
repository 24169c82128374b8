"""Documents of sessions whose index was lost are known until they are indexed again."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("ALTER TABLE artifact_documents ADD COLUMN lost_at timestamptz")
    op.execute("CREATE INDEX ix_artifact_documents_indexed ON artifact_documents (index_id) WHERE state = 'indexed'")
