"""Leases of sessions' documents name the process that holds them, as those of other work do."""

from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.execute("ALTER TABLE artifact_documents ADD COLUMN IF NOT EXISTS holder integer")
