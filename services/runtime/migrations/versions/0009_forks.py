"""Forked sessions know the sessions that their history comes from, the nearest first."""

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("ALTER TABLE sessions ADD COLUMN lineage text[]")
