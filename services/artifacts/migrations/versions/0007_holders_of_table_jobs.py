"""Leases of table jobs name the process that holds them, by the number of the lock that it holds while it lives."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.execute("ALTER TABLE artifacts ADD COLUMN IF NOT EXISTS holder integer")
