"""Warnings about what a toolset's target offered when it was last asked."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("ALTER TABLE toolsets ADD COLUMN warnings json NOT NULL DEFAULT '[]'")
