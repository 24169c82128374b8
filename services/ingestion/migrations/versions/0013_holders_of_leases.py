"""Leases name the process that holds them, by the number of the lock that it holds while it lives."""

from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    for table in ("texts", "ingestion_runs", "ingestion_items"):
        op.execute(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS holder integer")
