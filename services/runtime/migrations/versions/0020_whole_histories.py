"""Turns that fail rather than that a part of their conversation is left out."""

from alembic import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.execute("ALTER TABLE turns ADD COLUMN IF NOT EXISTS whole_history boolean NOT NULL DEFAULT false")
